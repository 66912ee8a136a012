#!/usr/bin/python3
"""The bill of materials of a release: SPDX 2.3's mandatory fields, everything
that the programs load, everything that the dashboard's lock pins."""
import json
import os
import re
import subprocess
import unittest

with open(os.environ["SBOM"], encoding="utf-8") as opened:
    SBOM = json.load(opened)
PACKAGES = {package["SPDXID"]: package for package in SBOM["packages"]}


def related(kind, one=None):
    return {(each["spdxElementId"], each["relatedSpdxElement"])
            for each in SBOM["relationships"]
            if each["relationshipType"] == kind and
            (one is None or each["spdxElementId"] == one)}


class SbomTest(unittest.TestCase):
    def test_document_has_what_spdx_demands(self):
        self.assertEqual(SBOM["spdxVersion"], "SPDX-2.3")
        self.assertEqual(SBOM["dataLicense"], "CC0-1.0")
        self.assertEqual(SBOM["SPDXID"], "SPDXRef-DOCUMENT")
        self.assertRegex(SBOM["documentNamespace"], r"^urn:uuid:[0-9a-f-]{36}$")
        self.assertRegex(SBOM["creationInfo"]["created"],
                         r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertTrue(all(re.match(r"(Tool|Person|Organization): .", each)
                            for each in SBOM["creationInfo"]["creators"]))
        self.assertEqual(related("DESCRIBES"),
                         {("SPDXRef-DOCUMENT", "SPDXRef-comera")})
        self.assertEqual(len(PACKAGES), len(SBOM["packages"]), "ids twice")
        for package in SBOM["packages"]:
            self.assertRegex(package["SPDXID"], r"^SPDXRef-[A-Za-z0-9.-]+$")
            for field in ("name", "versionInfo", "downloadLocation",
                          "licenseConcluded", "licenseDeclared",
                          "copyrightText"):
                self.assertTrue(package[field], package)
            self.assertRegex(package["externalRefs"][0]["referenceLocator"],
                             r"^pkg:(deb|npm|generic)/[^@\s]+@\S+$")

    def test_relationships_lead_somewhere(self):
        known = set(PACKAGES) | {"SPDXRef-DOCUMENT"}
        for each in SBOM["relationships"]:
            self.assertIn(each["spdxElementId"], known)
            self.assertIn(each["relatedSpdxElement"], known)

    def test_what_programs_load_is_named_with_its_version(self):
        for program in ("comera", "comera-server", "comera-worker",
                        "comera-trainer"):
            linked = {PACKAGES[other]["name"]: PACKAGES[other]["versionInfo"]
                      for _, other in related("DYNAMIC_LINK",
                                              "SPDXRef-program-" + program)}
            printed = subprocess.run(
                ["ldd", os.path.join(os.environ["PROGRAMS"], program)],
                check=True, text=True, stdout=subprocess.PIPE).stdout
            count = 0
            for library in re.findall(r"=> (/\S+)", printed):
                found = subprocess.run(
                    ["dpkg", "-S", "*/" + os.path.basename(library)],
                    text=True, stdout=subprocess.PIPE, check=False).stdout
                owners = {line.split(":")[0] for line in found.splitlines()}
                self.assertTrue(owners & set(linked), library)
                count += 1
            self.assertGreater(count, 5, program)
            for name, version in linked.items():
                installed = subprocess.run(
                    ["dpkg-query", "-W", "-f", "${Version}\n", name], text=True,
                    stdout=subprocess.PIPE, check=True).stdout.split()
                self.assertIn(version, installed)

    def test_the_dashboards_lock_is_in_it(self):
        with open("server/dashboard/package-lock.json", encoding="utf-8") as file:
            entries = json.load(file)["packages"]
        built = {one for one, _ in related("BUILD_DEPENDENCY_OF")}
        held = {other for _, other in related("CONTAINS",
                                              "SPDXRef-program-comera-server")}
        names = {PACKAGES[one]["name"] for one in held}
        self.assertEqual(names, set(entries[""]["dependencies"]))
        for path, entry in entries.items():
            if not path:
                continue
            name = path.rsplit("node_modules/", 1)[1]
            found = [one for one in SBOM["packages"] if one["name"] == name and
                     one["versionInfo"] == entry["version"] and
                     one["SPDXID"] in built | held]
            self.assertEqual(len(found), 1, path)


if __name__ == "__main__":
    unittest.main()
