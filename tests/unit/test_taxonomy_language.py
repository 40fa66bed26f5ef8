"""Which language a text is in."""

import polars as pl
import pytest

from rcll.taxonomy.language import detect_languages
from rcll.taxonomy.normalise import normalise_texts

TEXTS = [
    ("en", "The deployment was rolled back on Friday because the cache had not been warmed."),
    ("en", "JWT expiry 15m"),
    ("en", "We reached the café in Zürich by train and it was a lovely ride."),
    ("en", "The proof of concept for Schadenfreude is done."),
    ("de", "Das Kennwort des Mandanten darf niemals per E-Mail weitergegeben werden."),
    ("de", "Der Proof of Concept ist fertig und wird am Montag gezeigt."),
    ("de", "Rechnungen prüfen"),
    ("fr", "Pour résilier le bail commercial, envoyer une lettre recommandée six mois avant l'échéance."),
    ("es", "El 3 de marzo se incorporaron cinco personas al equipo de atención."),
    ("ru", "Сотрудники могут работать удалённо до трёх дней в неделю."),
    ("ru", "Деплой через GitLab CI идёт в production"),
    ("uk", "Він ніколи не був у цьому місті і не знає його."),
    ("zh", "生产环境每周二发布新版本，发布前必须确认回滚方案。"),
    ("zh", "今天使用 OAuth2 登录"),
    ("ja", "本番環境は毎週火曜日にリリースされます。"),
    ("other", "الموظفون يعملون من المنزل"),
    ("other", "Οι εργαζόμενοι δουλεύουν από το σπίτι"),
    ("other", "직원들은 집에서 일할 수 있습니다"),
    ("it", "Il contratto non è stato firmato e la riunione con il cliente è stata rimandata."),
    ("pt", "O contrato não foi assinado e a reunião com o cliente será adiada para sexta."),
    ("nl", "De vergadering met de klant is niet doorgegaan en wordt naar vrijdag verplaatst."),
    ("pl", "Umowa nie została podpisana, a spotkanie z klientem jest przełożone na piątek."),
    ("tr", "Toplantı iptal edildi ve bir sonraki hafta için daha uygun bir gün aranıyor."),
    (None, ""),
    (None, "12345 — 42 %"),
    (None, "🙂🙂🙂"),
]


@pytest.mark.parametrize(("code", "text"), TEXTS)
def test_the_language_is_found(code, text):
    """Script decides first, then function words; a text without letters has no language."""
    assert detect_languages(normalise_texts(pl.Series([text]))).to_list() == [code]


def test_a_text_has_its_language_in_any_company():
    """The language of a text does not depend on the texts beside it."""
    texts = [text for _, text in TEXTS] * 3
    assert detect_languages(normalise_texts(pl.Series(texts))).to_list() == [code for code, _ in TEXTS] * 3
