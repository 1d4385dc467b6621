"""Definitions in requests are checked when they are read, and not again when a thread sends them."""

import ast

import pytest
from pydantic import BaseModel, ValidationError

from fib_rmsnorm.schema import CheckedDefinition, Definition
from support.paths import REPOSITORY


class _Request(BaseModel):
    definition: CheckedDefinition


@pytest.fixture
def text() -> str:
    return (REPOSITORY / "definitions" / "norm" / "rmsnorm_d4096.json").read_text()


def test_sending_a_definition_does_not_parse_its_reference(text, monkeypatch):
    definition = Definition.model_validate_json(text)

    def fail(*arguments, **options):
        raise SystemError("two threads parse at once")

    monkeypatch.setattr(ast, "parse", fail)
    assert _Request(definition=definition).definition is definition


def test_a_definition_is_checked_where_a_request_arrives(text):
    message = f'{{"definition": {text}}}'
    assert _Request.model_validate_json(message).definition.name == "rmsnorm_d4096"
    with pytest.raises(ValidationError, match="named 'run'"):
        _Request.model_validate_json(message.replace("def run(", "def stand("))
