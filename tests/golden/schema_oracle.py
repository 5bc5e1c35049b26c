#!/usr/bin/env python3
"""Judges JSON texts with the jsonschema package: reads lines of {"schema": ..., "texts": [...]} and prints what is invalid.

Exit status: 0 all texts are valid, 1 some are not, 77 jsonschema is not installed. Usage: schema_oracle.py FILE
"""
import json
import sys

try:
    import jsonschema
except ImportError:
    sys.exit(77)


def main():
    judged, wrong = 0, 0
    with open(sys.argv[1], encoding="utf-8") as file:
        for line in file:
            case = json.loads(line)
            jsonschema.Draft202012Validator.check_schema(case["schema"])
            validator = jsonschema.Draft202012Validator(case["schema"],
                                                        format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
            for text in case["texts"]:
                judged += 1
                try:
                    errors = [error.message for error in validator.iter_errors(json.loads(text))]
                except ValueError as error:
                    errors = [str(error)]
                if errors:
                    wrong += 1
                    print(json.dumps({"schema": case["schema"], "text": text, "errors": errors}, ensure_ascii=False))
    print(f"{judged} texts judged, {wrong} wrong")
    return 1 if wrong or not judged else 0


if __name__ == "__main__":
    sys.exit(main())
