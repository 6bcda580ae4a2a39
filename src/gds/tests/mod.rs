//! Tests of the datastore as a whole.
