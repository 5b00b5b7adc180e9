"""E-mail: heads, every text that a mail program shows, forwarded messages, and the names of what is not read."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from qwen_batch.errors import DocumentError
from qwen_batch.read.formats import read_other
from qwen_batch.read.items import Content, FileItem, Task
from qwen_batch.readers import read_and_clean
from qwen_batch.records import CleanSteps


def read(tmp_path: Path, message: str | bytes) -> Content:
    data = message.encode() if isinstance(message, str) else message
    (tmp_path / "a.eml").write_bytes(data)
    return read_other(tmp_path / "a.eml", "email")


def shown(content: Content) -> list[str]:
    return [line.text for line in content.pages[0].lines if line.text]


def multi(kind: str, *parts: str, boundary: str = "B") -> str:
    inner = "".join(f"--{boundary}\n{part}\n" for part in parts)
    return f"Content-Type: multipart/{kind}; boundary={boundary}\n\n{inner}--{boundary}--\n"


def text(body: str, kind: str = "plain", head: str = "") -> str:
    return f"Content-Type: text/{kind}; charset=utf-8\n{head}\n{body}\n"


INNER = f"From: c@d.org\nSubject: the offer\n{text('We offer 12 chairs.')}"
FORWARDED = f"Content-Type: message/rfc822\n\n{INNER}"
FILE = 'Content-Type: application/pdf; name="deal.pdf"\nContent-Disposition: attachment\n\nJVBERg==\n'


def test_forwarded_messages_are_read_with_their_heads(tmp_path: Path) -> None:
    content = read(tmp_path, f"Subject: fwd\n{multi('mixed', text('See below'), FORWARDED, FILE)}")
    assert shown(content) == ["Subject: fwd", "See below", "From: c@d.org", "Subject: the offer", "We offer 12 chairs."]
    assert content.warnings == ("attachments are not read: deal.pdf",)


def test_unread_attachments_reach_the_row(tmp_path: Path) -> None:
    read(tmp_path, f"Subject: x\n{multi('mixed', text('Hi'), FILE)}")
    item = FileItem("a", tmp_path / "a.eml", "a.eml")
    assert read_and_clean(Task(item, (), 10, CleanSteps())).flags == ("unread_attachments",)


def test_texts_between_attachments_are_all_read(tmp_path: Path) -> None:
    content = read(
        tmp_path, f"Subject: x\n{multi('mixed', text('one'), FILE, text('two'), text('<p>three</p>', 'html'))}"
    )
    assert shown(content) == ["Subject: x", "one", "two", "three"]


@pytest.mark.parametrize(
    ("plain", "wanted"),
    [("Please sign the contract.", "Please sign the contract."), ("HTML only.", "Please sign the contract today.")],
)
def test_the_plain_form_unless_it_is_a_stub(tmp_path: Path, plain: str, wanted: str) -> None:
    logo = "Content-Type: image/png\nContent-ID: <1>\n\niVBORw==\n"
    rich = multi("related", text("<p>Please sign the <b>contract</b> today.</p>", "html"), logo, boundary="R")
    content = read(tmp_path, f"Subject: x\n{multi('alternative', text(plain), rich)}")
    assert shown(content) == ["Subject: x", wanted]
    assert content.warnings == ()


CALENDAR = """BEGIN:VCALENDAR
BEGIN:VEVENT
SUMMARY:Closing\\, part 2
DTSTART;TZID=Europe/Berlin:20260501T100000
LOCATION:Room 1 and a long
  way
END:VEVENT
END:VCALENDAR"""


def test_dates_of_invitations(tmp_path: Path) -> None:
    content = read(tmp_path, f"Subject: x\n{multi('alternative', text('You are invited'), text(CALENDAR, 'calendar'))}")
    assert shown(content)[1:] == [
        "You are invited",
        "Summary: Closing, part 2",
        "Start: 20260501T100000",
        "Location: Room 1 and a long way",
    ]


@pytest.mark.parametrize(
    ("charset", "codec"),
    [("gb2312", "gb18030"), ("iso-8859-1", "cp1252"), ("us-ascii", "cp1252"), ("nonsense", "utf-8")],
)
def test_character_sets_that_are_named_wrongly(tmp_path: Path, charset: str, codec: str) -> None:
    body = "合同金额为一百元镕。" if codec == "gb18030" else "“Größe” für Käufer in Köln – 5 €"
    head = f"Subject: x\nContent-Type: text/plain; charset={charset}\nContent-Transfer-Encoding: 8bit\n\n"
    assert shown(read(tmp_path, head.encode() + body.encode(codec)))[1:] == [body]


def test_heads_in_encoded_words_and_in_raw_bytes(tmp_path: Path) -> None:
    subject = "Subject: =?utf-8?B?5ZCI?=\n =?utf-8?B?5ZCM?="
    head = f"From: =?iso-8859-1?Q?J=FCrgen?= <j@x.de>\nTo: Müller <m@x.de>\n{subject}\n\nx\n"
    assert shown(read(tmp_path, head))[:3] == ["From: Jürgen <j@x.de>", "To: Müller <m@x.de>", "Subject: 合同"]


@pytest.mark.parametrize(
    ("field", "wanted"),
    [
        ("=?utf-8?B?5rWL6K+?= =?utf-8?B?lQ==?=", "测试"),  # a character that is cut in two
        ("=?iso-8859-1?q?=E4?= =?utf-8?q?=C3=B6?=", "äö"),
        ("Re: =?utf-8*en?q?a_b?= of =?utf-8?q?what=3F?=", "Re: a b of what?"),
        ("=?utf-8?B?a?= stays, =?utf-8?B?YQ==?= does not", "=?utf-8?B?a?= stays, a does not"),
    ],
)
def test_encoded_words(tmp_path: Path, field: str, wanted: str) -> None:
    assert shown(read(tmp_path, f"Subject: {field}\n\nx\n"))[0] == f"Subject: {wanted}"


def test_a_head_of_very_many_encoded_words_takes_no_longer_than_its_length(tmp_path: Path) -> None:
    field, start = "=?utf-8?B?w7Y=?= " * 60_000, time.process_time()
    assert shown(read(tmp_path, f"Subject: {field}\n\nx\n"))[0] == "Subject: " + "ö" * 60_000
    assert time.process_time() - start < 5


def test_quoted_printable(tmp_path: Path) -> None:
    head = "Subject: x\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n"
    assert shown(read(tmp_path, f"{head}Hello =C3=A9 wor=\nld\n"))[1:] == ["Hello é world"]


@pytest.mark.parametrize("depth", [60, 3000])
@pytest.mark.parametrize("kind", ["multipart", "message"])
def test_deep_messages_are_refused(tmp_path: Path, depth: int, kind: str) -> None:
    part = "Content-Type: message/rfc822\n\n" if kind == "message" else ""
    parts = (f"Content-Type: multipart/mixed; boundary=B{number}\n\n--B{number}\n{part}" for number in range(depth))
    with pytest.raises(DocumentError, match="no mail program writes that") as caught:
        read(tmp_path, f"Subject: x\n{''.join(parts)}\n\nhi")
    assert caught.value.error_type == "unsafe"


def test_encrypted_messages_say_so_and_signed_ones_are_read(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="is encrypted") as caught:
        read(tmp_path, f"Subject: x\n{multi('encrypted', text('Version: 1'))}")
    assert caught.value.error_type == "encrypted"
    signature = 'Content-Type: application/pkcs7-signature; name="smime.p7s"\n\nMA==\n'
    content = read(tmp_path, f"Subject: x\n{multi('signed', text('Agreed.'), signature)}")
    assert (shown(content), content.warnings) == (["Subject: x", "Agreed."], ())
