//! Names that devices and nodes may have. Lists, events and logs show them.

/// Bytes of a name. Names of hosts have 253 at most.
pub const NAME_BYTES_MAX: usize = 255;

/// Whether a text can be a name.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && !name.contains(char::is_control)
}

/// Whether a node or device may have this name. Texts for users list such names.
pub(crate) fn is_name_in_lists(name: &str) -> bool {
    is_name(name) && !name.contains(|character: char| character.is_whitespace() || matches!(character, ',' | ';' | '/'))
}
