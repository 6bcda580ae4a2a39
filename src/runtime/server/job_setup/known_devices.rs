//! The devices of a node that applications of a job have met so far.
//!
//! Each application has its endpoints from the fabric at its setup. A device is the same one in all of them as long as
//! its name and id are, because its processes know it by them. It keeps its number here, also while a fabric lacks it
//! or its plane has another name. So turns go on, and no endpoint is given twice.

use std::collections::BTreeMap;

use crate::fabric::{Device, DeviceEndpoint, PlaneDevices, endpoints_at};
use crate::types::Value;

/// Numbers of planes and devices of one node.
#[derive(Debug, Default)]
pub(super) struct KnownDevices<'a> {
    planes: BTreeMap<&'a str, usize>,
    numbers: BTreeMap<Identity<'a>, u32>,
    devices: Vec<Device<'a>>,
}

/// Name and id of the device.
type Identity<'a> = (&'a str, Option<&'a str>);

impl<'a> KnownDevices<'a> {
    /// The devices of a fabric under their numbers here.
    pub(super) fn numbered(&mut self, planes: &[PlaneDevices<'a>]) -> Vec<PlaneDevices<'a>> {
        let mut found = Vec::with_capacity(planes.len());
        for &(_, plane, ref devices) in planes {
            let next = self.planes.len();
            let number = *self.planes.entry(plane.name()).or_insert(next);
            found.push((number, plane, devices.iter().map(|device| self.number(*device)).collect()));
        }
        found
    }

    fn number(&mut self, device: Device<'a>) -> Device<'a> {
        let devices = &mut self.devices;
        let index = *self.numbers.entry((device.name, device.id)).or_insert_with(|| {
            devices.push(device);
            u32::try_from(devices.len() - 1).unwrap_or(u32::MAX)
        });
        Device { index, ..device }
    }

    /// The device of a number.
    pub(super) fn device(&self, number: u32) -> Option<Device<'a>> {
        self.devices.get(usize::try_from(number).ok()?).copied()
    }

    /// The array of endpoints, without their owner.
    pub(super) fn endpoints(&self, endpoints: &[DeviceEndpoint]) -> Value {
        endpoints_at(endpoints.iter().filter_map(|of| Some((self.device(of.device)?, of.earlier))))
    }
}

/// Lists of devices that a node has had, each with a number. Places of processes have their order of devices for one
/// list.
#[derive(Debug, Default)]
pub(super) struct DeviceLists(BTreeMap<Vec<u32>, usize>);

impl DeviceLists {
    /// The number of the list of these devices.
    pub(super) fn number_of(&mut self, planes: &[PlaneDevices<'_>]) -> usize {
        let list = planes.iter().flat_map(|(_, _, devices)| devices).map(|device| device.index).collect();
        let next = self.0.len();
        *self.0.entry(list).or_insert(next)
    }
}
