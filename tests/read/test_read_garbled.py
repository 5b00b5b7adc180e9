"""Text layers that say nothing are told from text, however little of a language that has."""

from __future__ import annotations

import random
import string
from pathlib import Path

import pytest
from pypdf import PdfWriter
from reportlab.pdfbase.pdfmetrics import registerFont
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

from qwen_batch.errors import DocumentError
from qwen_batch.read.page.garbled import is_garbled
from qwen_batch.read.pdf import read_pdf

ENGLISH = """The supplier shall deliver the goods to the place named in the order and shall bear the risk of loss
until the buyer has accepted them in writing at that place, without reservation of any kind, whatever the
circumstances of the carriage may be. Payment is due within thirty days after receipt of a correct invoice; interest
of five percent a year is owed on whatever remains unpaid. Either party may terminate this agreement by written notice
if the other commits a material breach and fails to remedy it within a reasonable period. Neither is liable for delay
caused by events beyond its control, such as flood, fire, strike or acts of government, provided that it tells the
other without delay."""
GERMAN = """Der Lieferant trägt die Gefahr des Untergangs bis zur Abnahme der Ware durch den Käufer. Die Zahlung ist
binnen dreißig Tagen nach Zugang einer ordnungsgemäßen Rechnung fällig; danach werden Verzugszinsen geschuldet. Jede
Partei kann diesen Vertrag schriftlich kündigen, wenn die andere eine wesentliche Pflicht verletzt und nicht
rechtzeitig abhilft."""
POLISH = """Dostawca ponosi ryzyko utraty towaru do chwili jego odbioru przez kupującego. Zapłata następuje w terminie
trzydziestu dni od doręczenia prawidłowej faktury, a po tym terminie należne są odsetki za zwłokę. Każda ze stron może
wypowiedzieć umowę na piśmie, jeżeli druga naruszy istotny obowiązek i nie usunie skutków we właściwym czasie."""
CODES = """QTY UOM PCS EXW FOB CIF DDP DAP CPT CIP VAT NET GRS LBS KGS BBL CBM USD EUR GBP JPY CHF AUD CAD CNY HKD NZD
SEK KRW SGD NOK MXN INR RUB ZAR TRY BRL TWD DKK PLN THB IDR HUF CZK ILS CLP PHP AED COP SAR MYR RON AAPL MSFT GOOG
AMZN NVDA TSLA BRK UNH JNJ XOM JPM LLY CVX MRK ABBV PEP AVGO COST WMT MCD CSCO TMO ABT DHR PFE CMCSA NKE ADBE NFLX TXN
QCOM BMY"""
SOURCE = """static int ctx_vfprintf(struct ctx *ctx, FILE *fp, const char *fmt, va_list ap) { size_t n = strlen(fmt) +
1; char *buf = xmalloc(n); if (!buf) return -ENOMEM; memcpy(buf, fmt, n); for (int i = 0; i < n; i++) { if (buf[i] ==
'%') { ctx->nargs++; } } int rc = vsnprintf(ctx->dst, sizeof(ctx->dst), buf, ap); fwrite(ctx->dst, 1, rc, fp);
xfree(buf);"""
CHINESE = "甲方应当在合同签订之日起三十日内向乙方支付全部货款，逾期未付的，每逾期一日按照未付金额的万分之五支付违约金。"
JAPANESE = (
    "本契約の当事者は、相手方の書面による承諾なく、本契約上の権利義務を第三者に譲渡してはならない。納品後の検収期間。"
)
TRADITIONAL = "買方應於驗收後三十日內給付價金，逾期者應按日計付遲延利息；賣方擔保標的物無瑕疵，並負責修繕與更換。"
LEADERS = "\n".join(f"{number}.{number % 4} Chapter {'.' * 60} {7 * number}" for number in range(30))
NUMBERS = "\n".join(f"{n} {n * 17:,}.00 ({n * 3}) {n}% $ {n * 211:,} 12/{n % 28 + 1}/2024 *" for n in range(10, 60))


def shifted(text: str, step: int) -> str:
    return "".join(char if char == "\n" else chr(ord(char) + step) for char in text)


def rotated(text: str, step: int) -> str:
    """With each letter named by one further on in the alphabet, from its end on at its beginning."""
    letters = string.ascii_lowercase
    return text.lower().translate(str.maketrans(letters, letters[step:] + letters[:step]))


def exchanged(text: str, seed: int) -> str:
    letters = random.Random(seed).sample(string.ascii_lowercase, 26)
    small = str.maketrans(string.ascii_lowercase, "".join(letters))
    return text.lower().translate(small)


def numbered(text: str) -> str:
    """With each character named after the order in which it came first."""
    codes: dict[str, str] = {}
    return "".join(char if char in " \n" else codes.setdefault(char, chr(33 + len(codes))) for char in text)


def as_chinese(text: str, step: int) -> str:
    return "".join(char if char.isspace() else chr(0x4E00 + ord(char) * step) for char in text)


@pytest.mark.parametrize(
    "text",
    [
        "口口口口 口口口口口 口口口口 口口口口口口 口口口口",
        "\ue001\ue002\ue003 \ue004\ue005 abc " * 4,
        "\ufffd" * 30,
        shifted(ENGLISH, 3),
        shifted(ENGLISH, -29).replace("\x03", " "),
        shifted(ENGLISH, 1),
        shifted(GERMAN.replace("ä", "ae"), 3),
        rotated(" ".join(ENGLISH.split()[:28]), 7),
        exchanged(ENGLISH, 4),
        numbered(ENGLISH),
        as_chinese(ENGLISH, 37),
        as_chinese(ENGLISH, 11),
    ],
)
def test_what_says_nothing(text: str) -> None:
    assert is_garbled(text)


@pytest.mark.parametrize(
    "text",
    [
        *(ENGLISH, ENGLISH.upper(), GERMAN, POLISH, CODES, SOURCE, LEADERS, NUMBERS),
        *(CHINESE, JAPANESE, TRADITIONAL),
        " ".join("".join(random.Random(n).choices("acgt", k=10)) for n in range(150)),
        " ".join("".join(random.Random(n).choices("ACDEFGHIKLMNPQRSTVWY", k=10)) for n in range(150)),
        "人口普查的出口与入口，第一条 甲方应在交货前付款。",
        "□ yes  □ no   Please mark one box for each of the questions.",
        "口口",
        "",
    ],
)
def test_what_says_something(text: str) -> None:
    assert not is_garbled(text)


def test_characters_without_a_name_count_as_nothing() -> None:
    assert is_garbled("", num_unnamed=20)
    assert is_garbled("12 345 6789", num_unnamed=30)
    assert not is_garbled(ENGLISH, num_unnamed=30)
    assert not is_garbled("", num_unnamed=5)


def write_with_names(path: Path, name: str) -> Path:
    """A page of text whose font calls each letter by the same name, given as UTF-16 in hexadecimal."""
    registerFont(TTFont("Vera", "Vera.ttf"))
    canvas = Canvas(str(path))
    canvas.setFont("Vera", 11)
    canvas.drawString(72, 700, ENGLISH.split("\n")[0][:80])
    canvas.save()
    writer = PdfWriter(clone_from=path)
    for font in writer.pages[0]["/Resources"]["/Font"].values():
        if "/ToUnicode" in font.get_object():
            stream = font.get_object()["/ToUnicode"].get_object()
            lines = stream.get_data().decode("latin-1").split("\n")
            named = [f"{line.rsplit('<', 1)[0]}<{name}>" if line.count("<") == 2 else line for line in lines]
            stream.set_data("\n".join(named).encode("latin-1"))
    writer.write(path)
    return path


@pytest.mark.parametrize("name", ["0000", "53E3", "F041"])
def test_a_page_of_such_a_layer_needs_ocr(tmp_path: Path, name: str) -> None:
    with pytest.raises(DocumentError, match="its text layer is garbled") as caught:
        read_pdf(write_with_names(tmp_path / "garbled.pdf", name))
    assert caught.value.error_type == "needs_ocr"


def test_pages_are_named_for_what_ails_them(tmp_path: Path) -> None:
    writer = PdfWriter()
    canvas = Canvas(str(tmp_path / "text.pdf"))
    canvas.drawString(72, 700, "A page that can be read.")
    canvas.save()
    writer.append(tmp_path / "text.pdf")
    writer.append(write_with_names(tmp_path / "garbled.pdf", "0000"))
    writer.write(tmp_path / "both.pdf")
    content = read_pdf(tmp_path / "both.pdf")
    assert [page.needs_ocr for page in content.pages] == [False, True]
    assert content.warnings == ("pages whose text layer is garbled (need OCR): 2",)
