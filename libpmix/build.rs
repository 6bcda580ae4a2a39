//! Gives the shared library the name by which every program that was linked against a PMIx library asks for it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libpmix.so.2");
    // Open MPI, Slurm and Intel MPI load the library with dlopen and close it again, while its threads may still run and
    // callers keep pointers to its functions.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // A function that is missing is to be found here, not when a program calls it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,defs");
}
