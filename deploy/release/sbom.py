#!/usr/bin/python3
"""Writes the bill of materials of a release: SPDX 2.3, as JSON.

  sbom.py --version=VERSION --programs=FOLDER --out=FILE [--root=TREE]

It names what the programs load (the Debian package of each library that ldd
finds, with its version here) and what the npm locks of the tree pin: packages
that the dashboard holds, that build it, and that tests use.
SOURCE_DATE_EPOCH is the time that it tells.
"""
import argparse
import base64
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid

import owners

PROGRAMS = ("comera", "comera-server", "comera-worker", "comera-trainer")


def libraries(program):
    """Paths of the libraries that the program loads."""
    printed = subprocess.run(["ldd", str(program)], check=True, text=True,
                             stdout=subprocess.PIPE).stdout
    missing = re.findall(r"^\s*(\S+) => not found", printed, re.M)
    if missing:
        sys.exit(f"sbom.py: {program} lacks {', '.join(missing)}")
    found = re.findall(r"=> (/\S+) \(0x", printed)
    return found + re.findall(r"^\s*(/\S+) \(0x", printed, re.M)


def debian_packages(programs):
    """Maps each package to the programs that load something of it."""
    loaded, owned = {}, {}
    for name in PROGRAMS:
        for path in libraries(programs / name):
            if path not in owned:
                owned[path] = owners.owner(path)
                if owned[path] is None:
                    sys.exit(f"sbom.py: no Debian package owns {path}")
            loaded.setdefault(owned[path], set()).add(name)
    return loaded


def spdx_id(kind, text):
    return f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)


def package(identity, name, version, url, **more):
    return {
        "SPDXID": identity, "name": name, "versionInfo": version,
        "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER",
                          "referenceType": "purl", "referenceLocator": url}],
        **more,
    }


def relation(one, kind, other):
    return {"spdxElementId": one, "relationshipType": kind,
            "relatedSpdxElement": other}


def add_debian(programs, packages, relations):
    for owner, users in sorted(debian_packages(programs).items()):
        shown = subprocess.run(
            ["dpkg-query", "-W", "-f", "${Package}\t${Version}\t${Architecture}"
             "\t${source:Package}\t${source:Version}\t${Maintainer}", owner],
            check=True, text=True, stdout=subprocess.PIPE).stdout.split("\t")
        name, version, architecture, source, source_version, maintainer = shown
        quoted = version.replace(":", "%3A").replace("+", "%2B")
        identity = spdx_id("deb", f"{name}-{version}")
        packages.append(package(
            identity, name, version,
            f"pkg:deb/debian/{name.replace('+', '%2B')}@{quoted}"
            f"?arch={architecture}&distro=debian-12",
            supplier=f"Organization: {re.sub(' <.*', '', maintainer)}",
            sourceInfo=f"Debian source package {source} {source_version}; its "
            f"licences are in /usr/share/doc/{name}/copyright"))
        for user in sorted(users):
            relations.append(relation(spdx_id("program", user), "DYNAMIC_LINK",
                                      identity))


def add_lock(root, lock, packages, relations, known):
    with open(root / lock, encoding="utf-8") as file:
        entries = json.load(file)["packages"]
    for path, entry in sorted(entries.items()):
        if not path or entry.get("link"):
            continue
        name = entry.get("name") or path.rsplit("node_modules/", 1)[1]
        version = entry["version"]
        identity = spdx_id("npm", f"{name}-{version}")
        if identity not in known:
            known.add(identity)
            more = {}
            algorithm, _, digest = entry.get("integrity", "").partition("-")
            if algorithm in ("sha1", "sha256", "sha512"):
                more["checksums"] = [{
                    "algorithm": algorithm.upper(),
                    "checksumValue": base64.b64decode(digest).hex()}]
            # An expression, and not npm's SEE LICENSE IN.
            declared = entry.get("license", "")
            if re.fullmatch(r"\(?[A-Za-z0-9.+-]+( (OR|AND|WITH) "
                            r"[A-Za-z0-9.+-]+)*\)?", declared):
                more["licenseDeclared"] = declared
            packages.append(package(
                identity, name, version,
                f"pkg:npm/{name.replace('@', '%40')}@{version}", **more))
        server = spdx_id("program", "comera-server")
        if str(lock).startswith("tests/"):
            one = relation(identity, "TEST_DEPENDENCY_OF", "SPDXRef-comera")
        elif entry.get("dev") or entry.get("devOptional"):
            one = relation(identity, "BUILD_DEPENDENCY_OF", server)
        else:
            one = relation(server, "CONTAINS", identity)
        if one not in relations:
            relations.append(one)


def describe(version, programs, root):
    comera = "SPDXRef-comera"
    own = {"licenseDeclared": "Apache-2.0",
           "supplier": "Organization: comera contributors"}
    packages = [package(comera, "comera", version,
                        f"pkg:generic/comera@{version}", **own)]
    relations = [relation("SPDXRef-DOCUMENT", "DESCRIBES", comera)]
    for name in PROGRAMS:
        identity = spdx_id("program", name)
        packages.append(package(identity, name, version,
                                f"pkg:generic/{name}@{version}", **own))
        relations.append(relation(comera, "CONTAINS", identity))
    add_debian(programs, packages, relations)
    known = set()
    locks = sorted(path.relative_to(root)
                   for top in ("server", "client", "tests", "worker")
                   for path in (root / top).rglob("package-lock.json")
                   if "node_modules" not in path.parts)
    if not locks:
        sys.exit(f"sbom.py: no package-lock.json below {root}")
    for lock in locks:
        add_lock(root, lock, packages, relations, known)
    time = datetime.datetime.fromtimestamp(
        int(os.environ.get("SOURCE_DATE_EPOCH") or
            datetime.datetime.now().timestamp()), datetime.timezone.utc)
    contents = json.dumps([packages, relations], sort_keys=True)
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT", "name": f"comera-{version}",
        # The name of these contents and no others.
        "documentNamespace": uuid.uuid5(uuid.NAMESPACE_OID, contents).urn,
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
                         "creators": [f"Tool: comera-sbom-{version}"]},
        "packages": packages, "relationships": relations,
    }


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--version", required=True)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).parents[2])
    options = parser.parse_args()
    document = describe(options.version, options.programs, options.root)
    options.out.write_text(json.dumps(document, indent=1) + "\n",
                           encoding="utf-8")


if __name__ == "__main__":
    main()
