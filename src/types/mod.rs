//! The vocabulary every other module speaks.
