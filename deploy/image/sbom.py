#!/usr/bin/env python3
"""Writes the SPDX 2.3 document of a root file system made by rootfs.sh: its Debian packages and NUMoE's programs.

Usage: sbom.py --root DIR --version TEXT [--cuda TOOLKIT]. The packages are read from their control files in
DIR/var/lib/dpkg/status.d, the versions of NVIDIA's libraries that the coordinator uses from TOOLKIT.
"""
import argparse
import datetime
import hashlib
import json
import os
import re
import sys
import urllib.parse

CUDA_LICENSE = "LicenseRef-NVIDIA-CUDA-EULA"


def identifier(name):
    """The SPDX identifier of a name; SPDX allows letters, digits, '.' and '-' in it."""
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


def header_number(toolkit, header, name):
    """The value of `#define name` in a header of the toolkit."""
    path = os.path.join(toolkit, "include", header)
    with open(path, encoding="utf-8", errors="replace") as f:
        found = re.search(rf"^#define {name}\s+(\d+)$", f.read(), re.M)
    if not found:
        sys.exit(f"{path}: no {name}, expected a header of CUDA 13")
    return int(found.group(1))


def cuda_library(path, version, release):
    """The entry of a library of NVIDIA, which is redistributed as its licence allows (CUDA EULA, attachment A)."""
    entry = program(path, version)
    cpe = f"cpe:2.3:a:nvidia:cuda_toolkit:{release}:*:*:*:*:*:*:*"
    entry.update({"SPDXID": identifier("cuda-" + os.path.basename(path)), "supplier": "Organization: NVIDIA",
                  "licenseConcluded": CUDA_LICENSE, "licenseDeclared": CUDA_LICENSE,
                  "externalRefs": [{"referenceCategory": "SECURITY", "referenceType": "cpe23Type", "referenceLocator": cpe}]})
    return entry


def cuda_libraries(root, toolkit):
    """-> (the library that the coordinator loads, the library that is linked into it)"""
    cudart = header_number(toolkit, "cuda_runtime_api.h", "CUDART_VERSION")  # 1000 * major + 10 * minor
    release = f"{cudart // 1000}.{cudart % 1000 // 10}"
    cublas = ".".join(str(header_number(toolkit, "cublas_api.h", "CUBLAS_VER_" + part)) for part in ("MAJOR", "MINOR", "PATCH", "BUILD"))
    archive = next(path for path in (os.path.join(toolkit, folder, "libcudart_static.a") for folder in ("lib64", "lib"))
                   if os.path.exists(path))
    return (cuda_library(os.path.join(root, "usr/lib/x86_64-linux-gnu/libcublasLt.so.13"), cublas, release),
            cuda_library(archive, release, release))


def relation(subject, kind, target):
    return {"spdxElementId": subject, "relationshipType": kind, "relatedSpdxElement": target["SPDXID"]}


def document(root, version, toolkit):
    status = os.path.join(root, "var/lib/dpkg/status.d")
    debian = [debian_package(read_control(os.path.join(status, name))) for name in sorted(os.listdir(status))]
    folder = os.path.join(root, "usr/bin")
    own = [program(os.path.join(folder, name), version) for name in sorted(os.listdir(folder)) if name.startswith("numoe-")]
    packages = own + debian
    relations = [relation("SPDXRef-DOCUMENT", "DESCRIBES", o) for o in own]
    relations += [relation(o["SPDXID"], "DEPENDS_ON", d) for o in own for d in debian]
    licenses = []
    if toolkit:
        cublas, cudart = cuda_libraries(root, toolkit)
        packages += [cublas, cudart]
        coordinator = identifier("program-numoe-coordinator")
        relations += [relation(coordinator, "DEPENDS_ON", cublas), relation(coordinator, "STATIC_LINK", cudart)]
        with open(os.path.join(root, "usr/share/doc/nvidia-cuda/copyright"), encoding="utf-8") as f:
            licenses = [{"licenseId": CUDA_LICENSE, "name": "CUDA EULA", "extractedText": f.read(),
                         "seeAlsos": ["https://docs.nvidia.com/cuda/eula/index.html"]}]
    # Documents of the same contents have the same namespace, documents of different contents have different ones.
    content = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    created = datetime.datetime.fromtimestamp(int(epoch), datetime.timezone.utc) if epoch else datetime.datetime.now(datetime.timezone.utc)
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": "numoe-" + version,
        "documentNamespace": "https://numoe.invalid/spdx/" + content,
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Organization: NUMoE", "Tool: numoe-sbom"]},
        "packages": packages,
        "hasExtractedLicensingInfos": licenses,
        "relationships": relations,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--cuda")
    options = parser.parse_args()
    json.dump(document(options.root, options.version, options.cuda), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
