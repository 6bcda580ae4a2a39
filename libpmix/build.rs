//! Gives the shared library the name by which every program that was linked against a PMIx library asks for it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpmix.so.2");
    // A function that is missing is to be found here, not when a program calls it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,defs");
}
