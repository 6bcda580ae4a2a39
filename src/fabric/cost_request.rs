//! Questions about costs in this library's keys, for processes that hold no [`FabricHandle`](super::FabricHandle).

use std::ops::Range;

use super::attributes::{COSTS, LISTED_MAX, NEAREST, described, device};
use super::plane::Plane;
use super::revisions::Fabric;
use crate::keys;
use crate::types::{DataArray, DataType, Info, Key, Value};

/// Qualifiers: the devices of the rows of [`COSTS`], as `0-9` or `4`, those of the columns, and the number of devices
/// of [`NEAREST`]. Without columns they are the rows.
const ROWS: &str = keys::OF_COSTS[0];
const COLUMNS: &str = keys::OF_COSTS[1];
const COUNT: &str = keys::OF_COSTS[2];

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
                let rows = range(find(qualifiers, ROWS)?, of_plane)?;
                let columns =
                    find(qualifiers, COLUMNS).map_or(Some(rows.clone()), |columns| range(columns, of_plane))?;
                Some(CostRequest::Block { plane, rows, columns })
            }
            NEAREST => {
                let count = find(qualifiers, COUNT).map_or(Some(COUNT_DEFAULT), count)?;
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
    Info::new(Key::from_static(keys::FABRIC_DEVICE.name()), Value::info_array(device))
}

/// Whether a qualifier of this library has another form than it must have.
pub(crate) fn is_malformed(qualifier: &Info) -> bool {
    match qualifier.key.as_str() {
        ROWS | COLUMNS => ends(&qualifier.value).is_none(),
        COUNT => count(&qualifier.value).is_none(),
        _ => false,
    }
}

fn find<'q>(qualifiers: &'q [Info], key: &str) -> Option<&'q Value> {
    qualifiers.iter().find(|info| info.key.as_str() == key).map(|info| &info.value)
}

/// The number of devices, as a number or as text.
fn count(value: &Value) -> Option<usize> {
    let of_text = || value.as_str()?.parse().ok();
    value.as_u64().or_else(of_text)?.try_into().ok()
}

/// The first and the last device of `FIRST-LAST`, or twice that of `ONE`.
fn ends(value: &Value) -> Option<(u32, u32)> {
    let text = value.as_str()?;
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let index = |text: &str| text.trim().parse::<u32>().ok();
    Some((index(first)?, index(last)?)).filter(|(first, last)| first <= last)
}

/// The devices of a range. `None` for another text, and for devices that do not exist.
fn range(value: &Value, plane: &Plane) -> Option<Range<u32>> {
    let (first, last) = ends(value)?;
    ((last as usize) < plane.device_count()).then(|| first..last + 1)
}
