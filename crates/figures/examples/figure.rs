//! Draws a figure without the rest of the command: `cargo run --release -p meridian-figures
//! --example figure -- NAME [FOLDER]`.

use meridian_figures::{Effort, draw};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().expect("a name");
    match draw(name, Effort::Full, &mut |line| eprintln!("{line}")) {
        Ok(figure) => {
            print!("{}", figure.text());
            if let Some(folder) = arguments.get(1) {
                std::fs::write(format!("{folder}/{name}.svg"), figure.svg())
                    .expect("it can be written");
            }
        }
        Err(why) => {
            eprintln!("{why}");
            std::process::exit(1);
        }
    }
}
