//! Questions about costs in this library's keys, for processes that hold no [`FabricHandle`](super::FabricHandle).

use std::ops::Range;

use super::attributes::{COSTS, LISTED_MAX, NEAREST, described, device};
use super::plane::Plane;
use super::revisions::Fabric;
use crate::types::{DataArray, DataType, Info, Key, Status, Value};

/// Qualifier of [`COSTS`]: the devices of the rows, as `0-9` or `4`.
const ROWS: &str = "modex.fabric.rows";

/// Qualifier of [`COSTS`]: the devices of the columns. Without it they are those of the rows.
const COLUMNS: &str = "modex.fabric.columns";

/// Qualifier of [`NEAREST`]: the number of devices.
const COUNT: &str = "modex.fabric.count";

/// The cost of a device in an answer to [`NEAREST`].
const COST: &str = "modex.fabric.cost";

/// The number of devices without [`COUNT`].
const COUNT_DEFAULT: usize = 100;

/// Costs in one answer.
const CELLS_MAX: usize = 1 << 16;

/// A question about costs. The answer is computed where nothing waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CostRequest {
    /// The costs of each row with each column.
    Block { plane: usize, rows: Range<u32>, columns: Range<u32> },
    /// The cheapest devices from one.
    Nearest { plane: usize, device: u32, count: usize },
}

impl CostRequest {
    /// The number of costs in the answer, at most. `None`: more than an answer may have.
    pub(crate) fn cost_count(&self) -> Option<usize> {
        match self {
            Self::Block { rows, columns, .. } => {
                rows.len().checked_mul(columns.len()).filter(|&count| count <= CELLS_MAX)
            }
            Self::Nearest { count, .. } => Some(*count).filter(|&count| count <= LISTED_MAX),
        }
    }
}

impl Fabric {
    /// The question that a Get or a query asks about costs. `None` for other keys, and for devices that do not exist.
    pub(crate) fn cost_request(&self, key: &str, qualifiers: &[Info]) -> Option<CostRequest> {
        let mut planes = self.meant(qualifiers).ok()?;
        match key {
            COSTS => {
                let (plane, of_plane) = planes.next()?;
                let rows = range(qualifiers, ROWS, of_plane).ok()??;
                let columns = range(qualifiers, COLUMNS, of_plane).ok()?.unwrap_or_else(|| rows.clone());
                Some(CostRequest::Block { plane, rows, columns })
            }
            NEAREST => {
                let count = count(qualifiers).ok()?;
                let (plane, device) = planes.find_map(|(plane, of)| Some((plane, device(of, qualifiers)?.index)))?;
                Some(CostRequest::Nearest { plane, device, count })
            }
            _ => None,
        }
    }

    /// The answer to a question about this revision.
    pub(crate) fn costs(&self, request: &CostRequest) -> Value {
        let of_plane = |plane: &usize| self.planes().get(*plane);
        match request {
            CostRequest::Block { plane, rows, columns } => {
                let costs = of_plane(plane).and_then(|plane| plane.block(rows.clone(), columns.clone()));
                let elements = costs.unwrap_or_default().into_iter().map(Value::Uint16).collect();
                Value::DataArray(Box::new(DataArray { element_type: DataType::Uint16, elements }))
            }
            CostRequest::Nearest { plane: number, device, count } => {
                let Some(plane) = of_plane(number) else { return Value::Undefined };
                let found = plane.nearest(*device, *count).unwrap_or_default();
                let described = |(index, cost)| Some(with_cost(described(*number, plane, plane.device(index)?), cost));
                Value::info_array(found.into_iter().filter_map(described).collect())
            }
        }
    }
}

/// A device with its cost: an array of infos, the device's identity first.
fn with_cost(mut device: Vec<Info>, cost: u16) -> Info {
    device.push(Info::new(Key::from_static(COST), Value::Uint16(cost)));
    Info::new(Key::from_static(crate::keys::FABRIC_DEVICE.name()), Value::info_array(device))
}

/// The number of devices, as a number or as text.
fn count(qualifiers: &[Info]) -> Result<usize, Status> {
    let Some(info) = qualifiers.iter().find(|info| info.key.as_str() == COUNT) else { return Ok(COUNT_DEFAULT) };
    let of_text = || info.value.as_str()?.parse().ok();
    let count = info.value.as_u64().or_else(of_text).ok_or(Status::ERR_BAD_PARAM)?;
    usize::try_from(count).map_err(|_| Status::ERR_BAD_PARAM)
}

/// The devices `FIRST-LAST` or `ONE` of a plane; `Ok(None)` without this qualifier.
///
/// # Errors
/// `BAD_PARAM` for another text, and `NOT_FOUND` for devices that do not exist.
fn range(qualifiers: &[Info], key: &str, plane: &Plane) -> Result<Option<Range<u32>>, Status> {
    let Some(info) = qualifiers.iter().find(|info| info.key.as_str() == key) else { return Ok(None) };
    let text = info.value.as_str().ok_or(Status::ERR_BAD_PARAM)?;
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let index = |text: &str| text.trim().parse::<u32>().map_err(|_| Status::ERR_BAD_PARAM);
    let (first, last) = (index(first)?, index(last)?);
    let is_known = first <= last && (last as usize) < plane.device_count();
    is_known.then(|| Some(first..last + 1)).ok_or(Status::ERR_NOT_FOUND)
}
