"""The format of the user's `agents.yml`, as pydantic models.

A default here only says that a key may be left out: `profiles.py` has the values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field

from deepwork.kernel.files.definition_models import DefinitionModel, build_problem, require_no_nul
from deepwork.kernel.vendors import AGENT_KINDS


def _require_foreign_name(name: str) -> str:
    """Refuse our own variables: they hold secrets of this user, and the runner sets those of an attempt."""
    if name.startswith("DEEPWORK_"):
        raise build_problem(f"{name} belongs to deepwork and is not passed on", "remove it")
    return name


if TYPE_CHECKING:
    _Kind = str
else:
    _Kind = Literal[(*AGENT_KINDS, "command")]
_Name = Annotated[
    str,
    Field(
        min_length=1,
        max_length=64,
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$",
        description="A name has letters, digits, dots, dashes and underscores.",
    ),
]
_Word = Annotated[str, AfterValidator(require_no_nul), Field(description="Write a word of the command.")]
_Value = Annotated[
    str, AfterValidator(require_no_nul), Field(min_length=1, max_length=1000, description="Write text.")
]
_Variable = Annotated[
    str,
    AfterValidator(_require_foreign_name),
    Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        max_length=200,
        description="Write the name of a variable, such as GH_TOKEN; its value stays in your environment.",
    ),
]


class AgentDefinition(DefinitionModel):
    """Write a mapping with kind, and with model, permission, allow, sandbox, env and run if needed."""

    kind: _Kind = Field("command", description=f"Write {', '.join(AGENT_KINDS)} or command.")
    model: _Value = Field("", description="Write the model's name as the program knows it.")
    permission: _Value = Field("", description="Write what the agent may do without asking.")
    allow: list[_Value] = Field([], description="Write the tools that it may use, as the program names them.")
    sandbox: _Value = Field("", description="Write the program's sandbox.")
    env: list[_Variable] = Field([], description="Write the names of the variables that it gets.")
    run: list[_Word] = Field(
        [],
        min_length=1,
        description="Write the command as a list of words, as [mycmd, '{prompt_file}']; no shell reads it.",
    )


class ProfileFileDefinition(DefinitionModel):
    """Write a mapping with agents, and with chains if needed."""

    model_config = ConfigDict(title="The agents of a user (agents.yml)")

    agents: dict[_Name, AgentDefinition] = Field({}, description="Write a mapping of names to agents.")
    chains: dict[_Name, list[_Name]] = Field(
        {}, description="Write a mapping of names to lists of agents, the first one first."
    )
