//! `make install` installs everything, and `make uninstall` removes all of it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::{command, exports, root, run};

#[test]
fn an_installed_tree_serves_compilers_and_is_removed_again() {
    let scratch = tempfile::tempdir().unwrap();
    let (built, destination) = (scratch.path().join("built"), scratch.path().join("destination"));
    fs::create_dir(&built).unwrap();
    // Only `make lib` links the twin of the library. Its contents do not matter here.
    let library = exports::library();
    let twin = library.with_file_name("libmodex-pmix.so");
    for (name, target) in [
        ("modex", command::built("modex")),
        ("modex-topology", command::built("modex-topology")),
        ("libpmix.so.2", library.to_owned()),
        ("libmodex-pmix.so", if twin.exists() { twin } else { library.to_owned() }),
    ] {
        symlink(target, built.join(name)).unwrap();
    }
    script("install", &built, &destination);

    let prefix = destination.join("opt/modex");
    let files = files_below(&prefix);
    for expected in [
        "bin/modex",
        "bin/modex-topology",
        "bin/pmixcc",
        "include/modex/types.h",
        "include/pmix.h",
        "include/pmix_common.h",
        "include/pmix_deprecated.h",
        "include/pmix_server.h",
        "include/pmix_tool.h",
        "include/pmix_version.h",
        "lib/libmodex-pmix.so",
        "lib/libpmix.so",
        "lib/libpmix.so.2",
        "lib/pkgconfig/pmix.pc",
        "share/man/man1/modex-info.1",
        "share/man/man1/modex.1",
        "share/bash-completion/completions/modex",
        "share/fish/vendor_completions.d/modex.fish",
        "share/zsh/site-functions/_modex",
    ] {
        assert!(files.contains(expected), "{expected} is not among {files:?}");
    }
    // The version that flux-pmix requires; Open MPI and MPICH require less.
    package(&destination, &["--atleast-version", "3.2.3", "pmix"]);
    let flags = package(&destination, &["--cflags", "--libs", "pmix"]);
    // Linking would need every function that the program calls. The flags are right if the compiler finds the headers.
    let source = root().join("libpmix/tests/abi/programs/host_and_tool.c");
    run(Command::new("gcc").arg("-c").arg(source).args(["-o", "/dev/null"]).args(flags.split_whitespace()));
    assert!(flags.contains("-lpmix"), "{flags}");
    wrapper(&prefix);
    let info = run(Command::new(prefix.join("bin/modex")).arg("info"));
    let library = fs::canonicalize(prefix.join("lib/libpmix.so.2")).unwrap();
    assert!(info.contains(library.to_str().unwrap()), "{info}");

    script("uninstall", &built, &destination);
    assert_eq!(files_below(&prefix), BTreeSet::new());
}

/// The wrapper of the compiler makes programs that find the library without a variable.
fn wrapper(prefix: &Path) {
    let wrapper = || Command::new(prefix.join("bin/pmixcc"));
    let program = prefix.join("program");
    run(wrapper().arg(root().join("libpmix/examples/client.c")).arg("-o").arg(&program));
    let dynamic = run(Command::new("readelf").arg("-d").arg(&program));
    let library = prefix.join("lib").display().to_string();
    assert!(dynamic.contains(&format!("runpath: [{library}]")), "{dynamic}");
    fs::remove_file(program).unwrap();
    let show = |part: &str| run(wrapper().arg(format!("--showme{part}"))).trim().to_owned();
    assert_eq!(show(":incdirs"), prefix.join("include").display().to_string());
    assert_eq!((show(":libdirs"), show(":libs")), (library, "pmix".to_owned()));
    let shown = run(wrapper().args(["--showme", "-c", "a.c"]).env("PMIX_CC", "other -m64"));
    assert_eq!(shown, format!("other -m64 -I{} -c a.c\n", prefix.join("include").display()));
    let alone = wrapper().output().unwrap();
    assert_eq!(alone.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&alone.stderr).starts_with("usage: pmixcc "), "{alone:?}");
    let unknown = wrapper().arg("--showme:nothing").output().unwrap();
    assert!(!unknown.status.success() && String::from_utf8_lossy(&unknown.stderr).contains("--showme:nothing"));
}

fn script(action: &str, built: &Path, destination: &Path) {
    let mut command = Command::new("make");
    // Call the script's target alone: the other targets would build for release first.
    command.args(["--no-print-directory", "--silent", &format!("{action}-only")]).current_dir(root());
    command.args(["PREFIX=/opt/modex".to_owned(), format!("DESTDIR={}", destination.display())]);
    run(command.arg(format!("BUILT={}", built.display())));
}

fn package(destination: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_SYSROOT_DIR", destination);
    command.env("PKG_CONFIG_LIBDIR", destination.join("opt/modex/lib/pkgconfig"));
    run(command.args(arguments))
}

/// Every file and link below a folder, relative to it.
fn files_below(folder: &Path) -> BTreeSet<String> {
    let text = run(Command::new("find").arg(folder).args(["!", "-type", "d", "-printf", "%P\\n"]));
    text.lines().map(str::to_owned).collect()
}
