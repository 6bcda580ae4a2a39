//! Prints the job that an input of the fuzz target `registration` describes.
//!
//! Run in `fuzz/`: `cargo run --example describe FILE`.

use std::io::{Error, Result};

use modex::types::{Info, Value};
use modex_fuzz::{codec, description};

fn main() -> Result<()> {
    let path = std::env::args().nth(1).ok_or_else(|| Error::other("usage: describe FILE"))?;
    let input = std::fs::read(path)?;
    let [form, cut, bytes @ ..] = &input[..] else {
        return Err(Error::other(
            "an input has two bytes at least: the form, and the number of infos before the update",
        ));
    };
    let infos = match form % 8 {
        0..4 => description::from_short_form(bytes),
        _ => description::from_wire(bytes, codec(form / 8)),
    };
    let cut = usize::from(*cut).min(infos.len());
    println!("first:");
    print(&infos[..cut], 1);
    println!("update:");
    print(&infos[cut..], 1);
    Ok(())
}

/// One info a line; the elements of an array below it.
fn print(infos: &[Info], depth: usize) {
    for info in infos {
        let margin = "    ".repeat(depth);
        let Value::DataArray(array) = &info.value else {
            println!("{margin}{}: {:?}", info.key, info.value);
            continue;
        };
        println!("{margin}{}: array of {:?}", info.key, array.element_type);
        for element in &array.elements {
            match element {
                Value::Info(inner) => print(std::slice::from_ref(&**inner), depth + 1),
                other => println!("{margin}    {other:?}"),
            }
        }
    }
}
