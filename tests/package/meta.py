"""Checks META.json, for PGXN, against the specification (1.0.0) and against the rest of the repository."""

import json
import pathlib
import re
import sys
import tomllib

LICENSES = "agpl_3 apache_1_1 apache_2_0 artistic_1 artistic_2 bsd freebsd gfdl_1_2 gfdl_1_3 gpl_1 gpl_2 gpl_3 lgpl_2_1 lgpl_3_0 mit mozilla_1_0 mozilla_1_1 openssl perl_5 postgresql qpl_1_0 ssleay sun zlib open_source restricted unrestricted unknown"
REQUIRED = ["abstract", "license", "maintainer", "meta-spec", "name", "provides", "version"]
OPTIONAL = ["description", "generated_by", "no_index", "prereqs", "release_status", "resources", "tags"]

root = pathlib.Path(__file__).parents[2]
package = tomllib.loads((root / "Cargo.toml").read_text())["package"]
control = (root / "xqueue.control").read_text()
meta = json.loads((root / "META.json").read_text())


def is_term(text):
    """Returns whether text has at least two characters, all printable, without slash or backslash."""
    return len(text) > 1 and text.isprintable() and not set(text) & set("/\\")


def defects():
    yield from (f"{key} is missing" for key in REQUIRED if key not in meta)
    yield from (f"{key} is not in the specification" for key in set(meta) - set(REQUIRED) - set(OPTIONAL))
    for key, expected in [("name", package["name"]), ("version", package["version"]), ("abstract", package["description"])]:
        if meta[key] != expected:
            yield f"{key} is not that of Cargo.toml, {expected!r}"
    if meta["license"] not in LICENSES.split() or meta["license"] != package["license"].lower():
        yield f"license is {meta['license']!r}"
    if not meta["maintainer"]:
        yield "it names no maintainer"
    if meta["meta-spec"] != {"version": "1.0.0", "url": "https://pgxn.org/meta/spec.txt"}:
        yield "meta-spec names another specification"
    if meta.get("release_status", "stable") not in ["stable", "testing", "unstable"]:
        yield f"release_status is {meta['release_status']!r}"
    yield from (f"{term!r} cannot be a tag" for term in meta["tags"] if not is_term(term) or len(term) > 255)
    if list(meta["provides"]) != ["xqueue"] or not is_term(meta["name"]):
        yield "it provides xqueue, and nothing else"
    for name, extension in meta["provides"].items():
        if extension.get("version") != meta["version"]:
            yield f"{name} has another version than the distribution"
        for key in ["file", "docfile"]:
            if not (root / extension[key]).is_file():
                yield f"there is no {extension[key]}"
    for needs in meta["prereqs"].values():
        for versions in needs.values():
            yield from (f"{v!r} is no semantic version" for v in versions.values() if not re.fullmatch(r"\d+\.\d+\.\d+", v))
    if "default_version = '@CARGO_VERSION@'" not in control:
        yield "the control file has a version of its own"


found = list(defects())
for defect in found:
    print(f"META.json: {defect}", file=sys.stderr)
sys.exit(bool(found))
