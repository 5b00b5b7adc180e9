"""Write the files of sample_data/ again, or check that they are what this script writes.

    pip install -e '.[dev]'                       # reportlab, which draws the PDFs
    apt-get install fonts-droid-fallback          # the Chinese font, Apache-2.0
    python sample_data/make_sample_data.py        # writes contracts/, truth/, tickets.jsonl and troublesome/
    python sample_data/make_sample_data.py --check            # writes elsewhere and compares; exit 1 on a difference
    python sample_data/make_sample_data.py --check --skip-chinese   # the same without the Chinese font

The texts are in source/. With the same versions of reportlab, Pillow, zlib and the font, every run writes the same
bytes.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from generator.draw import contract_pdf
from generator.long_agreement import fill_services, read_services
from generator.markup import Contract, parse_contract
from generator.tickets import read_material, tickets_jsonl
from generator.troublesome import troublesome_files
from generator.typeface import DEFAULT_FONT, FontMissingError, register_chinese_font

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "source"
GOOD_CONTRACT = "mutual_nda"  # the one that is copied into troublesome/


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0; 1 when --check finds a difference; 2 when the font is missing."""
    parser = argparse.ArgumentParser(description="Write or check the files of sample_data/.")
    parser.add_argument("--font", type=Path, default=DEFAULT_FONT, help="TrueType font with Chinese characters")
    parser.add_argument("--out", type=Path, default=HERE, help="folder to write to (default: this one)")
    parser.add_argument("--check", action="store_true", help="write to a temporary folder and compare")
    parser.add_argument("--skip-chinese", action="store_true", help="leave out the contracts that need the font")
    options = parser.parse_args(arguments)
    try:
        if not options.skip_chinese:
            register_chinese_font(options.font)
    except FontMissingError as error:
        print(error, file=sys.stderr)
        return 2
    if options.check:
        return _check(options.out, options.skip_chinese)
    names = write_samples(options.out, options.skip_chinese)
    print(f"wrote {len(names)} files under {options.out}")
    return 0


def write_samples(folder: Path, skip_chinese: bool = False) -> list[str]:
    """Write every file; the names are relative to `folder`."""
    names = []
    for name, content in _iter_files(skip_chinese):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        names.append(name)
    return names


def read_contracts() -> list[Contract]:
    """All contracts, from source/."""
    services = read_services((SOURCE / "services.yaml").read_text(encoding="utf-8"))
    return [
        parse_contract(path.stem, fill_services(path.read_text(encoding="utf-8"), services))
        for path in sorted((SOURCE / "contracts").glob("*.txt"))
    ]


def _iter_files(skip_chinese: bool) -> Iterator[tuple[str, bytes]]:
    contracts = {contract.name: contract for contract in read_contracts()}
    for name, contract in contracts.items():
        if contract.style.font == "Chinese" and skip_chinese:
            continue
        yield f"contracts/{name}.pdf", contract_pdf(contract)
        yield f"truth/contracts/{name}.txt", contract.truth.encode()
    material = read_material((SOURCE / "tickets.yaml").read_text(encoding="utf-8"))
    yield "tickets.jsonl", tickets_jsonl(material).encode()
    for name, content in troublesome_files(contracts[GOOD_CONTRACT]).items():
        yield f"troublesome/{name}", content


def _check(folder: Path, skip_chinese: bool) -> int:
    with tempfile.TemporaryDirectory() as temporary:
        names = write_samples(Path(temporary), skip_chinese)
        different = [name for name in names if _read(folder / name) != _read(Path(temporary) / name)]
    for name in different:
        print(f"{name}: differs from what this script writes; run it without --check", file=sys.stderr)
    print(f"{len(names) - len(different)} of {len(names)} files are as this script writes them")
    return 1 if different else 0


def _read(path: Path) -> bytes | None:
    return path.read_bytes() if path.is_file() else None


if __name__ == "__main__":
    sys.exit(main())
