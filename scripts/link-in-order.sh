#!/usr/bin/env bash
# A linker for `make build` and `make lib`: cc, told to put the functions of scripts/hot-functions.txt next to each other. The
# kernel maps a program's text in pieces of 64 KiB, each at the first touch. What a rank of a job runs through is a fifteenth
# of the text, but lies all over it, and to map it costs as much as to run it.
#
# The list is made by `make hot-functions`. Names end in a hash of the types and the compiler: with another compiler
# a function is known by the rest of its name, unless too many have it. What the list does not know lies where it would
# without. Only lld can order; others link as ever.
set -euo pipefail

# The C library has a twin without the name of other PMIx libraries, for `modex host`: the loader takes the twin beside one of them.
twin=libmodex-pmix.so
link() {
    local argument is_output='' arguments=() names_library=''
    "${CC:-cc}" "$@" || return
    for argument in "$@"; do
        case $argument in
            -Wl,-soname,libpmix.so.2) names_library=1 argument=-Wl,-soname,$twin ;;
        esac
        [ -z "$is_output" ] || argument=$(dirname "$argument")/$twin
        is_output=
        [ "$argument" != -o ] || is_output=1
        arguments+=("$argument")
    done
    [ -z "$names_library" ] || "${CC:-cc}" "${arguments[@]}"
}

case " $* " in
    *" -fuse-ld=lld "*) ;;
    *)
        echo "link-in-order.sh: the linker is not lld; what is linked starts slower, and libpmix.so.2 needs libgcc_s.so.1" >&2
        link "$@"
        exit
        ;;
esac

objects=()
for argument in "$@"; do
    case $argument in
        -*) ;;
        *.o | *.rlib | *.a) [ ! -f "$argument" ] || objects+=("$argument") ;;
    esac
done

order=$(mktemp "${TMPDIR:-/tmp}/modex-order-XXXXXX")
trap 'rm -f "$order"' EXIT
list=$(dirname "$(readlink -f "$0")")/hot-functions.txt
{ [ ${#objects[@]} = 0 ] || nm --defined-only --format=posix "${objects[@]}" 2>/dev/null || true; } | awk -v list="$list" '
    function unhashed(name) {
        gsub(/17h[0-9a-f]+E/, "17hE", name)
        gsub(/Cs[0-9A-Za-z]+_/, "Cs_", name)
        return name
    }
    BEGIN {
        while ((getline name < list) > 0) { listed[name]; wanted[unhashed(name)]; names[++count] = name }
    }
    NF >= 3 && !($1 in seen) {
        seen[$1]
        name = $1
        sub(/\.llvm\.[0-9]+/, "", name)
        short = unhashed(name)
        if (!(short in wanted)) next
        if (name in listed) { known[short]; exact[name] = exact[name] $1 "\n" }
        else { others[short] = others[short] $1 "\n"; number[short]++ }
    }
    END {
        for (i = 1; i <= count; i++) {
            short = unhashed(names[i])
            if (names[i] in exact) printf "%s", exact[names[i]]
            else if (short in known) continue
            # The C library is not among the objects; its names are what they are.
            else if (!(short in others)) print names[i]
            else if (number[short] <= 4 && !(short in printed)) { printed[short]; printf "%s", others[short] }
        }
    }' >"$order"

# A shared library takes the unwinder that gcc has for static programs: libgcc_s.so.1 would be one more file for each process to
# find and map, a tenth of what its start costs.
arguments=("$@")
archive=$("${CC:-cc}" -print-file-name=libgcc_eh.a)
if [[ " $* " == *" -shared "* ]]; then
    if [ -f "$archive" ]; then
        arguments=("${arguments[@]/#-lgcc_s/-lgcc_eh}")
    else
        echo "link-in-order.sh: gcc has no libgcc_eh.a; the library will need libgcc_s.so.1" >&2
    fi
fi
link "${arguments[@]}" -Wl,--symbol-ordering-file="$order" -Wl,--no-warn-symbol-ordering
