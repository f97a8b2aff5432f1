"""MCP tools for templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from deepwork.kernel.answers import Field, Id, Limit1000, Name
from deepwork.kernel.database.transaction import Database, Transaction, join_transaction
from deepwork.kernel.errors import Code, DefinitionError, InvalidInput, NotAllowed, NotFound
from deepwork.kernel.files.problems import find_nearest
from deepwork.kernel.operations import Preset, Traits, operation
from deepwork.kernel.values import new_id
from deepwork.work.plans.interfaces import RepositoryRegistry
from deepwork.work.plans.models import (
    Outline,
    SourceType,
    Task,
    TaskRequirements,
    Workflow,
    list_required_approvals,
    list_required_checks,
)
from deepwork.work.plans.plan_tools import Parallelism, PlanTools
from deepwork.work.plans.planning import Planner
from deepwork.work.plans.rules.graph import MAX_TASKS
from deepwork.work.plans.stores.plan_store import PlanStore
from deepwork.work.plans.stores.task_store import TaskStore
from deepwork.work.plans.task_proofs import (
    NamedChecks,
    TaskProver,
    list_named_checks,
    record_start,
    require_checked_names,
)
from deepwork.work.templates.catalog import CatalogContents, TemplateCatalog
from deepwork.work.templates.models import (
    Template,
    TemplateEvent,
    TemplateSource,
    Variable,
    collect_variables,
    fill_template,
    render_source,
    validate_template,
)
from deepwork.work.templates.responses import (
    FileError,
    TemplateApplied,
    TemplateCreated,
    Templates,
    TemplateView,
)
from deepwork.work.templates.store import TemplateStore

if TYPE_CHECKING:  # input models import pydantic: only calls that use them do
    from deepwork.work.templates.inputs import Definition


class TemplateTools:
    """Tools to save a plan as a template, and to create workflows from templates."""

    traits: ClassVar = Traits(
        toolset="templates",
        one_transaction=True,
        presets={"show": Preset("list", {}, "Show a template in full.", without=frozenset({"limit"}))},
    )

    def __init__(
        self,
        database: Database,
        plans: PlanTools,
        catalog: TemplateCatalog,
        prover: TaskProver,
        repositories: RepositoryRegistry,
    ) -> None:
        self._database = database
        self._prover, self._repositories = prover, repositories
        self._plans = plans
        self._catalog = catalog

    @operation(
        "work",
        changes_many=True,
        unlisted=("estimated_complexity", "checks", "approval", "budget", "changes"),
    )
    def template_create(
        self,
        name: Name,
        description: str | None = None,
        from_workflow_id: Annotated[Id | None, Field(description="Take the tasks of this plan")] = None,
        template: Annotated[
            Definition | None, Field(description="Or write them; {{name}} in any text is a variable")
        ] = None,
    ) -> TemplateCreated:
        """Save a plan as a template, from a workflow or from a definition."""
        _require_one_source(from_workflow_id, template)
        files = self._catalog.scan()
        with self._database.transaction() as tx:
            tasks, declared = (
                _convert_definition(template)
                if template
                else (_load_plan_tasks(tx, from_workflow_id or ""), [])
            )
            validate_template(tasks, declared)
            made = Template(
                id=new_id("tmpl"),
                name=name,
                description=description,
                tasks=tuple(tasks),
                variables=collect_variables(tasks, declared),
                created_at=tx.now,
            )
            self._save(tx, made, files)
            return TemplateCreated(id=made.id)

    @operation("read")
    def template_list(
        self,
        template_id: Annotated[Id | None, Field(description="Only this one, in full; id or name")] = None,
        limit: Limit1000 = 200,
    ) -> Templates:
        """Templates by name, with their variables."""
        files = self._catalog.scan()
        with self._database.reading() as tx:
            if template_id is not None:
                found = self._get(tx, files, template_id)
                return Templates(templates=[TemplateView.from_template(found)], total=1)
            chosen = _resolve_names(tx, files)
            listed = _load_templates(tx, dict(sorted(chosen.items())[:limit]))
        errors = [
            FileError(file=problem.file, line=problem.line, error=problem.message)
            for problem in files.problems
        ]
        views = [TemplateView.excerpt_from_template(template) for template in listed]
        return Templates(templates=views, total=len(chosen), errors=errors or None)

    @operation("work", changes_many=True, prepared_by="_check_names")
    def template_apply(
        self,
        template_id: Annotated[Id, Field(description="Id or name")],
        workflow_name: Name,
        variables: dict[str, str] | None = None,
        repository_path: Annotated[str | None, Field(description="Default: this project")] = None,
        repository_paths: list[str] | None = None,
        max_parallel_tasks: Parallelism = 1,
    ) -> TemplateApplied:
        """Create a plan from a template, ready to work on."""
        files = self._catalog.scan()
        with self._database.transaction() as tx, join_transaction(tx):
            template = self._get(tx, files, template_id)
            plan = fill_template(template, variables or {})
            created = self._plans.workflow_create(
                workflow_name,
                SourceType.TEMPLATE,
                source_content=render_source(template, workflow_name, plan.values),
                source_ref=template.id,
                repository_path=repository_path,
                repository_paths=repository_paths,
                max_parallel_tasks=max_parallel_tasks,
            )
            details = {"approach": template.description or ""}
            workflow = PlanStore(tx).get_for_update(created.id)
            require_checked_names(workflow, list_named_checks(None, plan.tasks))
            record_start(tx, workflow)
            Planner(tx).set_plan(workflow, f"Applied template: {template.name}", plan.tasks, details)
            return TemplateApplied(workflow_id=created.id)

    def _check_names(
        self,
        template_id: str,
        variables: dict[str, str] | None = None,
        repository_path: str | None = None,
        repository_paths: list[str] | None = None,
        **_: Any,
    ) -> NamedChecks:
        files = self._catalog.scan()
        with self._database.reading() as tx:
            template = self._get(tx, files, template_id)
        names = list_named_checks(None, fill_template(template, variables or {}).tasks)
        located = self._repositories.locate(repository_path or next(iter(repository_paths or ()), None))
        head = self._repositories.find_head(located)
        return self._prover.check_names_at(located, head.commit if head else None, names)

    def _save(self, tx: Transaction, template: Template, files: CatalogContents) -> None:
        """Insert the template; NotAllowed if its name is taken, except by a shipped template."""
        rival = next((each for each in _list_not_shipped(files) if each.name == template.name), None)
        if rival is not None or not TemplateStore(tx).add(template):
            where = f" in the file {rival.id}" if rival else ""
            raise NotAllowed(
                f"Template {template.name!r} already exists{where}.",
                code=Code.DUPLICATE_TEMPLATE,
                suggestion="Choose another name.",
                recoverable=True,
            )
        tx.emit(TemplateEvent.CREATED, TemplateView.from_template(template).model_dump(mode="json"))

    def _get(self, tx: Transaction, files: CatalogContents, wanted: str) -> Template:
        """Return the template with this id, else the one with this name that takes precedence."""
        by_id = {each.id: each for each in files.all}
        if wanted in by_id:
            return by_id[wanted]
        if wanted in files.broken:
            raise DefinitionError(str(files.broken[wanted]))
        of_files = {each.name: each for each in files.templates}
        found = of_files.get(wanted)
        if found is None or found.source is TemplateSource.SHIPPED:
            found = TemplateStore(tx).find(wanted) or found
        if found is None:
            raise _build_not_found(tx, files, wanted)
        return found


def _require_one_source(workflow_id: str | None, template: Definition | None) -> None:
    if (workflow_id is None) == (template is None):
        both = "both were given" if template is not None else "neither was given"
        raise InvalidInput(
            f"A template is created from either `from_workflow_id` or `template`: {both}.",
            suggestion="Pass exactly one of them.",
        )


def _convert_definition(template: Definition) -> tuple[list[Outline], list[Variable]]:
    declared = [Variable(**each.model_dump()) for each in template.variables or ()]
    return [task.to_outline() for task in template.tasks], declared


def _load_plan_tasks(tx: Transaction, workflow_id: str) -> list[Outline]:
    """Return the tasks of a workflow's plan in the form that a caller would write them."""
    workflow, store = PlanStore(tx).get(workflow_id), TaskStore(tx)
    tasks, _ = store.list_by_workflow(workflow_id, MAX_TASKS)
    if not tasks:
        raise NotAllowed(
            f"Workflow {workflow.name!r} has no plan yet.",
            suggestion="Set one with {tool:workflow_set_plan}, or pass the tasks in `template`.",
        )
    waits_for = store.list_dependency_names([task.id for task in tasks if task.is_explicit])
    return [
        task.to_outline(waits_for.get(task.id, ()))._replace(
            requirements=_combine_requirements(workflow, task)
        )
        for task in sorted(tasks, key=lambda task: task.position)
    ]


def _combine_requirements(workflow: Workflow, task: Task) -> TaskRequirements | None:
    """Return what the plan and the task require of the task: a template has only tasks."""
    plan, own = workflow.requirements, task.requirements
    if plan is None or not (plan.checks or plan.approval):
        return own
    return replace(
        own or TaskRequirements(),
        checks=list_required_checks(plan, own),
        approval=tuple(sorted(list_required_approvals(plan, own), reverse=True)),
    )


def _list_not_shipped(files: CatalogContents) -> list[Template]:
    return [each for each in files.templates if each.source is not TemplateSource.SHIPPED]


def _resolve_names(tx: Transaction, files: CatalogContents) -> dict[str, Template | str]:
    """Return what each name refers to: a template from a file, or the id of a stored one."""
    shipped = {each.name: each for each in files.templates if each.source is TemplateSource.SHIPPED}
    stored = TemplateStore(tx).get_ids_by_name()
    return {**shipped, **stored, **{each.name: each for each in _list_not_shipped(files)}}


def _load_templates(tx: Transaction, chosen: Mapping[str, Template | str]) -> list[Template]:
    stored = TemplateStore(tx).get_by_ids([each for each in chosen.values() if isinstance(each, str)])
    return [stored[each] if isinstance(each, str) else each for each in chosen.values()]


def _build_not_found(tx: Transaction, files: CatalogContents, wanted: str) -> NotFound:
    near = find_nearest(wanted, sorted(_resolve_names(tx, files)))
    broken = next((problem for id, problem in files.broken.items() if id.rpartition(":")[2] == wanted), None)
    if broken:
        return NotFound("template", wanted, suggestion=f"The file of that name cannot be used: {broken}")
    guess = f" Did you mean {near!r}?" if near else ""
    return NotFound(
        "template", wanted, suggestion=f"See {{tool:template_list}} for the available templates.{guess}"
    )
