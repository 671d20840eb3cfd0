#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The manifests in user/kubernetes against the API: every field known, of its type, and none missing that is required.

The API is told by Debian's python3-kubernetes, whose classes are generated from the published OpenAPI document: each has its
fields with their types, and refuses to be made without one that is required. Prints TAP.
"""
import datetime
import glob
import os
import re
import sys

import kubernetes.client as api
import yaml

FOLDER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../user/kubernetes")
PLAIN = {"str": str, "int": int, "float": (int, float), "bool": bool, "object": object, "datetime": datetime.datetime}
# What the document leaves at "string", and the API refuses all the same.
CHOICES = {
    "mount_propagation": {"None", "HostToContainer", "Bidirectional"},
    "image_pull_policy": {"Always", "IfNotPresent", "Never"},
    "restart_policy": {"Always", "OnFailure", "Never"},
}
HOST_PATH_TYPES = {"", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"}


def check(value, kind, where):
    """Yields what is wrong with VALUE as a KIND: "str", "list[KIND]", "dict(str, KIND)" or a class of the API."""
    if inner := re.fullmatch(r"list\[(.+)\]", kind):
        if not isinstance(value, list):
            yield f"{where}: {value!r} is not a list"
            return
        for i, item in enumerate(value):
            yield from check(item, inner[1], f"{where}[{i}]")
    elif inner := re.fullmatch(r"dict\(str, (.+)\)", kind):
        if not isinstance(value, dict):
            yield f"{where}: {value!r} is not a map"
            return
        for key, item in value.items():
            yield from check(item, inner[1], f"{where}.{key}")
    elif kind in PLAIN:
        # to Python a bool is an int
        if not isinstance(value, PLAIN[kind]) or (isinstance(value, bool) and kind not in ("bool", "object")):
            yield f"{where}: {value!r} is not a {kind}"
    else:
        yield from check_object(value, kind, where)


def check_object(value, kind, where):
    model = getattr(api, kind)
    if not isinstance(value, dict):
        yield f"{where}: {value!r} is not a {kind}"
        return
    names = {name: attribute for attribute, name in model.attribute_map.items()}
    known = {names[key]: item for key, item in value.items() if key in names}
    yield from (f"{where}: {kind} has no field {key}" for key in value if key not in names)
    for attribute, item in known.items():
        field = f"{where}.{model.attribute_map[attribute]}"
        yield from check(item, model.openapi_types[attribute], field)
        choices = HOST_PATH_TYPES if (kind, attribute) == ("V1HostPathVolumeSource", "type") else CHOICES.get(attribute)
        if choices and item not in choices:
            yield f"{field}: {item!r} is none of {', '.join(sorted(choices))}"
    try:
        model(**known)
    except ValueError as error:
        yield f"{where}: {error}"


def check_document(document, where):
    """A whole object: its class is told by apiVersion and kind."""
    version = str(document.get("apiVersion", "")).rpartition("/")[2].capitalize()
    kind = version + str(document.get("kind"))
    if not hasattr(api, kind):
        return [f"{where}: apiVersion {document.get('apiVersion')} has no kind {document.get('kind')}"]
    return list(check(document, kind, where)) or list(check_names(document, where))


def check_names(document, where):
    """What one field says of another: mounts name volumes, a selector finds its own pods."""
    spec = document.get("spec", {})
    template = spec.get("template", document)
    pod = template.get("spec", {}) if document["kind"] != "ConfigMap" else {}
    volumes = {volume["name"] for volume in pod.get("volumes", [])}
    for container in pod.get("containers", []) + pod.get("initContainers", []):
        for mount in container.get("volumeMounts", []):
            if mount["name"] not in volumes:
                yield f"{where}: {container['name']} mounts {mount['name']}, which is no volume"
    wanted = spec.get("selector", {}).get("matchLabels", {})
    if not wanted.items() <= template.get("metadata", {}).get("labels", {}).items():
        yield f"{where}: the selector does not find the template's labels"


BROKEN = {
    "a field that there is not": ("spec.containers.0.comand", ["true"]),
    "a value of another type": ("spec.containers.0.volumeMounts.0.readOnly", "yes"),
    "a required field that is missing": ("spec.containers", None),
    "a word that is no choice": ("spec.containers.0.volumeMounts.0.mountPropagation", "Both"),
    "a mount of no volume": ("spec.containers.0.volumeMounts.0.name", "hugepim"),
    "a kind that there is not": ("kind", "Pot"),
}


def broken(document, path, value):
    *before, last = path.split(".")
    at = document
    for word in before:
        at = at[int(word) if word.isdigit() else word]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return document


def main():
    results = []
    for path in sorted(glob.glob(f"{FOLDER}/*.yaml")):
        with open(path, encoding="utf-8") as file:
            for document in yaml.safe_load_all(file):
                name = f"{os.path.basename(path)}: {document['kind']} {document['metadata']['name']}"
                results.append((name, check_document(document, name)))
    for what, (path, value) in BROKEN.items():
        with open(f"{FOLDER}/pod.yaml", encoding="utf-8") as file:
            found = check_document(broken(yaml.safe_load(file), path, value), "pod.yaml")
        results.append((f"{what} is found", [] if found else [f"{path} = {value!r} passes"]))
    for number, (name, errors) in enumerate(results, 1):
        print(f"{'not ok' if errors else 'ok'} {number} - {name}")
        for error in errors:
            print(f"# {error}")
    failed = sum(bool(errors) for _, errors in results)
    print(f"{len(results) - failed} passed, {failed} failed, 0 skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
