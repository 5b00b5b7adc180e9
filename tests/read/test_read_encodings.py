"""Encodings of texts that do not say which they are in: sentences of many languages, alone and again and again."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from qwen_batch.errors import DocumentError
from qwen_batch.read.kinds import utf16_of
from qwen_batch.read.text.encodings import decode, decode_declared
from qwen_batch.read.text.plain import read_text

TEXTS = (
    (
        "cp1252 mac_roman cp850",
        "Der Käufer zahlt für die Waren den vereinbarten Preis. Die Größe der Lieferung regelt § 3. "
        "Über Änderungen verhandeln die Parteien schriftlich.",
    ),
    (
        "cp1252 mac_roman",
        "Le présent contrat prend effet à la date de signature. Le vendeur garantit que les "
        "marchandises sont conformes à la commande et qu’elles ont été livrées à l’acheteur.",
    ),
    (
        "cp1252",
        "El comprador pagará el precio en un plazo de treinta días. La compañía española asumirá además "
        "los gastos de envío y de inspección técnica.",
    ),
    (
        "cp1252",
        "O comprador pagará o preço no prazo de trinta dias. A cessão dos direitos não é permitida sem "
        "autorização prévia da companhia.",
    ),
    (
        "cp1252",
        "Köparen skall betala priset inom trettio dagar från leveransen. Säljaren ansvarar för fel som "
        "fanns när varan överlämnades på överenskommen plats.",
    ),
    (
        "cp1250 iso8859_2",
        "Kupujący zapłaci cenę w ciągu trzydziestu dni od dnia dostawy. Sprzedający odpowiada za wady "
        "rzeczy istniejące w chwili jej wydania. Umowa wchodzi w życie z dniem podpisania przez obie "
        "strony.",
    ),
    (
        "cp1250 iso8859_2",
        "Kupující zaplatí cenu do třiceti dnů ode dne dodání. Prodávající odpovídá za vady, které mělo "
        "zboží v okamžiku převzetí. Smlouva nabývá účinnosti dnem podpisu.",
    ),
    (
        "cp1250 iso8859_2",
        "A vevő a vételárat harminc napon belül köteles megfizetni. Az eladó felel az áru hibáiért, "
        "amelyek az átadás időpontjában fennálltak. A szerződés aláírásával lép hatályba.",
    ),
    (
        "cp1251 koi8_r cp866 iso8859_5 mac_cyrillic",
        "Настоящий договор вступает в силу с момента его подписания сторонами. Покупатель обязуется "
        "оплатить товар в течение тридцати дней с даты поставки.",
    ),
    (
        "cp1251 koi8_r",
        "Это договор между сторонами и он вступает в силу",
    ),
    (
        "cp1251 koi8_u",
        "Цей договір набирає чинності з дня його підписання сторонами. Покупець зобов'язується сплатити "
        "ціну товару протягом тридцяти днів після його отримання.",
    ),
    (
        "cp1251",
        "Настоящият договор влиза в сила от датата на подписването му от двете страни. Купувачът се "
        "задължава да плати цената в срок от тридесет дни.",
    ),
    (
        "cp1253 iso8859_7",
        "Η παρούσα σύμβαση τίθεται σε ισχύ από την ημερομηνία υπογραφής της. Ο αγοραστής υποχρεούται να "
        "καταβάλει το τίμημα εντός τριάντα ημερών.",
    ),
    (
        "cp1253",
        "Η σύμβαση αυτή ισχύει από σήμερα",
    ),
    (
        "cp1254",
        "Bu sözleşme imza tarihinde yürürlüğe girer. Alıcı, bedeli otuz gün içinde ödemekle yükümlüdür. "
        "Satıcı, malların ayıplı olmadığını garanti eder.",
    ),
    (
        "cp1254",
        "Sözleşme bedeli yüz liradır. Alıcı ödemeyi yapacaktır, satıcı malları teslim eder.",
    ),
    (
        "cp1255",
        "חוזה זה ייכנס לתוקף ביום חתימתו על ידי הצדדים. הקונה ישלם את המחיר בתוך שלושים ימים ממועד המסירה.",
    ),
    (
        "cp1256 iso8859_6",
        "يدخل هذا العقد حيز التنفيذ من تاريخ توقيعه من قبل الطرفين. يلتزم المشتري بدفع الثمن خلال "
        "ثلاثين يوما من تاريخ التسليم.",
    ),
    (
        "cp874",
        "สัญญานี้มีผลใช้บังคับตั้งแต่วันที่ลงนาม ผู้ซื้อต้องชำระราคาภายในสามสิบวันนับแต่วันส่งมอบสินค้า",
    ),
    (
        "cp932 euc_jp iso2022_jp",
        "本契約は、両当事者が署名した日から効力を生じる。買主は、引渡しの日から三十日以内に代金を支払わなければならない。",
    ),
    (
        "cp932 euc_jp",
        "これは日本語の文章です。契約書の内容。",
    ),
    (
        "cp932 euc_jp",
        "ご注文ありがとうございます。商品は三日以内に発送いたします。",
    ),
    (
        "gb18030 gb2312",
        "本合同自双方签字盖章之日起生效。买方应当在收到货物后三十日内支付全部价款，逾期支付的，应当按日支付违约金。",
    ),
    (
        "gb18030",
        "合同金额为一百元。",
    ),
    (
        "gb18030",
        "Contract 合同 amount 100 元 only, all other text in English here.",
    ),
    (
        "big5 gb18030",
        "本契約自雙方簽署之日起生效。買方應於收到貨物後三十日內支付全部價款，逾期者應按日給付違約金。",
    ),
    (
        "big5",
        "這是繁體中文的合約內容。甲方應當付款。",
    ),
    (
        "big5",
        "甲方應於三日內付款。",
    ),
    (
        "cp949",
        "본 계약은 양 당사자가 서명한 날부터 효력이 발생한다. 매수인은 물품을 인도받은 날부터 삼십일 이내에 "
        "대금을 지급하여야 한다.",
    ),
    (
        "cp949",
        "계약 금액은 백만원입니다. 구매자는 대금을 지급한다.",
    ),
    (
        "cp949",
        "계약서",
    ),
    (
        "cp1252 mac_roman",
        "The “Supplier” shall deliver the buyer’s goods – all of them – to the place named in the order.",
    ),
    (
        "cp1252",
        "The price is 100 € and the fee is 20 €.",
    ),
    (
        "cp1252",
        "The supplier, Café Noir Ltd, shall deliver the goods to the place named in the order.",
    ),
    (
        "cp1252 cp850",
        "Größe für Käufer über alles",
    ),
    (
        "cp1252",
        "Name;Größe;Ort\nMüller;groß;Köln\nSchröder;klein;Düsseldorf\n",
    ),
)
SINGLE = tuple((name, text) for names, text in TEXTS for name in names.split())
KNOWN_TO_FAIL = ("cp949", "계약서", 7)  # these three bytes pairs are common in Chinese, too; alone they are told apart


def written(text: str, encoding: str) -> bytes:
    """The text in an encoding that may lack typographic quotes."""
    try:
        return text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(str.maketrans("’“”–", '\'""-')).encode(encoding)


@pytest.mark.parametrize("times", [1, 7])
@pytest.mark.parametrize(("encoding", "text"), SINGLE)
def test_sentences_of_many_languages(encoding: str, text: str, times: int) -> None:
    if (encoding, text, times) == KNOWN_TO_FAIL:
        pytest.xfail("common in Chinese, too")
    data = written("\n".join([text] * times), encoding)
    shown, warnings = decode(data)
    assert shown == data.decode(encoding)
    assert warnings[0].startswith("encoding guessed: ")


@pytest.mark.parametrize(
    "text",
    [
        *("It’s “fine” – ok", "20 °C ± 5 %, § 3 Abs. 2", "© 2024 Acme Inc. All rights reserved.", "• first\n• second"),
        *("Acme® widgets, £5 each, ½ price", "id;name\n1;René\n", "Perché è così: la società può", "100 – 200"),
        *("Café Zürich Straße", "coördinatie van ideeën", "sont conformes à la", "wait—what", "a\xa0b", "3. Über"),
    ],
)
def test_little_beyond_ascii_is_western(text: str) -> None:
    assert decode(text.encode("cp1252"))[0] == text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("with_mark", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        *(
            "hello wörld line two\nmore",
            "本合同自双方签字盖章之日起生效。",
            "これは契約書の内容です。",
            "계약 금액은 백만원입니다.",
        ),
        *("Настоящий договор вступает в силу", "Η σύμβαση αυτή ισχύει", "חוזה זה ייכנס לתוקף"),
    ],
)
def test_utf16_with_and_without_its_mark(tmp_path: Path, text: str, encoding: str, with_mark: bool) -> None:
    mark = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}[encoding] if with_mark else b""
    (tmp_path / "a.txt").write_bytes(mark + text.encode(encoding))
    assert [line.text for line in read_text(tmp_path / "a.txt").pages[0].lines] == text.split("\n")


@pytest.mark.parametrize(
    "data", [bytes(range(256)), b"\0" * 50, bytes((7 * n * n) % 251 for n in range(999)), b"bush hid the facts"]
)
def test_what_is_no_utf16(data: bytes) -> None:
    assert utf16_of(data) is None


def test_halves_of_characters_in_utf8() -> None:
    text, warnings = decode(b"ok \xed\xa0\x80 lone \xff\xfe end")
    assert (text, warnings) == (
        "ok \ufffd\ufffd\ufffd lone \ufffd\ufffd end",
        ("bytes that are not valid UTF-8, read as U+FFFD: 5",),
    )


def test_names_of_character_sets_as_browsers_mean_them() -> None:
    assert decode_declared("镕".encode("gbk"), "GB2312") == "镕"
    assert decode_declared("“5 €”".encode("cp1252"), "ISO-8859-1") == "“5 €”"
    assert decode_declared(b"\xff", "utf-8") is None
    assert decode_declared(b"x", "no such set") is None


def test_bytes_at_random_are_no_text() -> None:
    with pytest.raises(DocumentError):
        decode(bytes((7 * n * n) % 251 for n in range(999)))
