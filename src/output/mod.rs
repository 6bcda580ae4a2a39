//! Output of processes as a host or a tool writes it: the files that directives name, and lines as XML. The command and
//! the C library write alike by it.
//!
//! | file | owns |
//! |---|---|
//! | `directives` | the directives for files, and the names of these files |
//! | `file` | the opening of a file, and the removal of what that made |
//! | `whole` | whole lines, and the write of all bytes |
//! | `xml` | lines as elements of XML |

mod directives;
mod file;
mod whole;
mod xml;

pub use directives::{FileDirectives, NamedStream, Place, UnmetFile};
pub use file::{check_file, open, remove_made};
pub use whole::{split_after_last_line, write_whole};
pub use xml::XmlElement;
