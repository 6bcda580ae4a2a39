//! Numbers for requests.

use crate::proto::Tag;

/// Hands out tags in order, from [`Tag::DYNAMIC_FIRST`] to [`Tags::LAST`], then from the start again.
#[derive(Debug)]
pub(super) struct Tags {
    next: u32,
}

impl Tags {
    /// The upper half of the numbers belongs to requests that a 6.1 server originates.
    pub(super) const LAST: u32 = 0x8000_0031;

    pub(super) const fn new() -> Self {
        Self { next: Tag::DYNAMIC_FIRST.0 }
    }

    /// The next tag that is not in use. It ends, because far fewer requests may be in flight than there are tags.
    pub(super) fn next(&mut self, is_used: impl Fn(Tag) -> bool) -> Tag {
        loop {
            let tag = Tag(self.next);
            self.next = if self.next >= Self::LAST { Tag::DYNAMIC_FIRST.0 } else { self.next + 1 };
            if !is_used(tag) {
                return tag;
            }
        }
    }

    #[cfg(test)]
    pub(super) const fn starting_at(next: u32) -> Self {
        Self { next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_tag_is_the_reference_first() {
        assert_eq!(Tags::new().next(|_| false), Tag(101));
    }

    #[test]
    fn tags_wrap_and_skip_those_in_use() {
        let mut tags = Tags::starting_at(Tags::LAST);
        assert_eq!(tags.next(|_| false), Tag(Tags::LAST));
        assert_eq!(tags.next(|tag| tag.0 < 103), Tag(103));
    }
}
