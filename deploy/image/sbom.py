#!/usr/bin/env python3
"""Writes the SPDX 2.3 document of a root file system made by rootfs.sh: its Debian packages and our programs.

Usage: sbom.py --root DIR --version TEXT. The packages are read from DIR/var/lib/dpkg/status.d, the control file of each.
"""
import argparse
import datetime
import hashlib
import json
import os
import re
import sys
import urllib.parse

CUDA_EULA = "https://docs.nvidia.com/cuda/eula/index.html"


def identifier(name):
    """SPDX allows letters, digits, '.' and '-'."""
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def read_control(path):
    fields, last = {}, None
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line[0] in " \t":
                fields[last] += "\n" + line.strip()
            elif ":" in line:
                last, value = line.split(":", 1)
                fields[last] = value.strip()
    return fields


def debian_package(control):
    name, version, architecture = control["Package"], control["Version"], control["Architecture"]
    purl = f"pkg:deb/debian/{urllib.parse.quote(name)}@{urllib.parse.quote(version)}?arch={architecture}&distro=debian-12"
    return {
        "SPDXID": identifier("deb-" + name),
        "name": name,
        "versionInfo": version,
        "supplier": "Organization: Debian",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "checksums": [{"algorithm": "SHA256", "checksumValue": control["SHA256"]}],
        "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}],
    }


def program(path, version):
    with open(path, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    return {
        "SPDXID": identifier("program-" + os.path.basename(path)),
        "name": os.path.basename(path),
        "versionInfo": version,
        "supplier": "Organization: NUMoE",
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "Apache-2.0",
        "licenseDeclared": "Apache-2.0",
        "copyrightText": "NOASSERTION",
        "checksums": [{"algorithm": "SHA256", "checksumValue": digest}],
    }


def cuda_library(path):
    """NVIDIA's, redistributed as its licence allows (CUDA EULA, attachment A)."""
    entry = program(path, "13")
    entry.update({"SPDXID": identifier("cuda-" + os.path.basename(path)), "supplier": "Organization: NVIDIA",
                  "licenseConcluded": "LicenseRef-CUDA-EULA", "licenseDeclared": "LicenseRef-CUDA-EULA"})
    return entry


def document(root, version):
    status = os.path.join(root, "var/lib/dpkg/status.d")
    debian = [debian_package(read_control(os.path.join(status, name))) for name in sorted(os.listdir(status))]
    folder = os.path.join(root, "usr/bin")
    own = [program(os.path.join(folder, name), version) for name in sorted(os.listdir(folder)) if name.startswith("numoe-")]
    libraries = os.path.join(root, "usr/lib/x86_64-linux-gnu")
    cuda = [cuda_library(os.path.join(libraries, name)) for name in sorted(os.listdir(libraries)) if name.startswith("libcublas")]
    packages = own + debian + cuda
    # The same contents have the same namespace, and others another.
    content = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    created = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc) if epoch else datetime.datetime.now(datetime.timezone.utc)
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": p["SPDXID"]} for p in own]
    relations += [{"spdxElementId": o["SPDXID"], "relationshipType": "DEPENDS_ON", "relatedSpdxElement": d["SPDXID"]}
                  for o in own for d in debian + cuda]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": "numoe-" + version,
        "documentNamespace": "https://numoe.invalid/spdx/" + content,
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: numoe-sbom"]},
        "packages": packages,
        "hasExtractedLicensingInfos": [{"licenseId": "LicenseRef-CUDA-EULA", "name": "CUDA EULA", "extractedText": CUDA_EULA}] if cuda else [],
        "relationships": relations,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--version", required=True)
    options = parser.parse_args()
    json.dump(document(options.root, options.version), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
