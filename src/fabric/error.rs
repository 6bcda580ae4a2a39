/// A reason to refuse the description of a fabric.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FabricError {
    /// Nothing to register.
    #[error("the fabric has no plane")]
    NoPlane,
    /// A name that nobody could ask for.
    #[error("plane '{plane}': the name {name:?} is empty, is longer than {max} bytes or has a control character")]
    Name {
        /// The plane.
        plane: String,
        /// The start of the name.
        name: String,
        /// The limit.
        max: usize,
    },
    /// A device with names that no list can hold, or with an odd address or vendor.
    #[error(
        "plane '{plane}': no device {device:?} of node {node:?} can be in a fabric: a name is empty, is longer than {max} bytes, or has a \
         space, ',', ';', '/' or control character; or its address or vendor is too long or has a control character"
    )]
    Device {
        /// The plane.
        plane: String,
        /// The start of the node's name.
        node: String,
        /// The start of the device's name.
        device: String,
        /// The limit.
        max: usize,
    },
    /// One name for two planes.
    #[error("two planes have the name '{plane}'; a registration could not tell them apart")]
    TwoPlanes {
        /// The name.
        plane: String,
    },
    /// One name for two switches.
    #[error("plane '{plane}': two switches have the name '{switch}'")]
    TwoSwitches {
        /// The plane.
        plane: String,
        /// The name.
        switch: String,
    },
    /// One name for two devices.
    #[error("node '{node}' has two devices with the name '{device}'")]
    TwoDevices {
        /// The node.
        node: String,
        /// The name.
        device: String,
    },
    /// A plane that connects nothing.
    #[error("plane '{plane}' has no devices")]
    NoDevices {
        /// The plane.
        plane: String,
    },
    /// More than this library computes with.
    #[error("plane '{plane}' has {count} {what}; the limit is {max}")]
    TooMany {
        /// The plane.
        plane: String,
        /// Devices, switches or links.
        what: &'static str,
        /// Their number.
        count: usize,
        /// The limit.
        max: usize,
    },
    /// A device at no switch of the plane.
    #[error("plane '{plane}': device '{device}' of node '{node}' is at switch {switch}, and the plane has {count}")]
    DeviceAtNoSwitch {
        /// The plane.
        plane: String,
        /// The node.
        node: String,
        /// The device.
        device: String,
        /// The number of the switch.
        switch: u32,
        /// The number of switches.
        count: usize,
    },
    /// A link to no switch of the plane.
    #[error("plane '{plane}': a link goes to switch {switch}, and the plane has {count}")]
    LinkToNoSwitch {
        /// The plane.
        plane: String,
        /// The number of the switch.
        switch: u32,
        /// The number of switches.
        count: usize,
    },
    /// A switch above itself, or too many switches above one.
    #[error("plane '{plane}': switch '{switch}' is above itself, or more than {max} switches are above it")]
    Loop {
        /// The plane.
        plane: String,
        /// The switch.
        switch: String,
        /// The limit.
        max: usize,
    },
    /// A size that does not fit the number of switches.
    #[error("plane '{plane}': the sizes {sizes:?} do not make {count} switches")]
    Sizes {
        /// The plane.
        plane: String,
        /// The sizes of groups or dimensions.
        sizes: Vec<u32>,
        /// The number of switches.
        count: usize,
    },
    /// A distance that costs can't express.
    #[error("plane '{plane}': two switches are {hops} or more links apart; the limit is {max}")]
    TooFar {
        /// The plane.
        plane: String,
        /// The distance.
        hops: u64,
        /// The limit.
        max: u64,
    },
}
