"""The set-up of this process: the options as they stand, what is wrong with them, and the server they point to."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from locust.env import Environment

from llmload.load_config import LoadSettings, read_load
from llmload.records import Completion
from llmload.redaction import has_secrets, shown_url
from llmload.sinks.influx_target import read_influx
from llmload.sinks.record import RunRecord
from llmload.sinks.sink import Sink
from llmload.surroundings import WallClock
from llmload.swarm.gates import Gates, read_gates
from llmload.swarm.keeping import check_keeping
from llmload.swarm.outputs import open_sinks
from llmload.swarm.plan import Plan, UserClass
from llmload.swarm.preflight import probe
from llmload.swarm.shelf import PromptShelf
from llmload.wire.choose import proxy_in_use
from llmload.wire.deadlines import Keeper
from llmload.wire.tls import Context

log = logging.getLogger("llmload")


class Setup:
    """Reads and checks; nothing here is part of a run.

    `keeper` and `clock` are shared by every client of this process; `probed` is the completion of the last probe.
    """

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._shelf = PromptShelf()
        self._hosts: dict[UserClass, str] = {}
        self.keeper = Keeper()
        self.clock = WallClock()
        self.probed: Completion | None = None
        self.sinks: list[Sink] = []
        """Where the numbers of a run go beside its record."""
        self.metrics: Sink | None = None
        """The one among them that lives as long as this process: what `/metrics` shows."""
        self.own_shape = environment.shape_class
        """The load shape of the locustfile, where it has one."""
        parsed: Any = environment.parsed_options
        self._given_users = getattr(parsed, "num_users", None)

    @property
    def options(self) -> dict[str, Any]:
        """The options by name, with the host as it was given."""
        parsed: Any = self._environment.parsed_options
        host = self._environment.host
        if host and has_secrets(host):
            # Locust shows its host in logs, reports and the web page: it gets one without secrets, we keep the other
            parsed.llmload_host = host
            self._environment.host = parsed.host = shown_url(host)
        kept = getattr(parsed, "llmload_host", None)
        if kept and shown_url(kept) == self._environment.host:
            host = kept
        # a headless Locust puts 1 for users that were not given, later
        given = self._given_users if parsed.headless else parsed.num_users
        return {**vars(parsed), "host": host, "given_users": given}

    @property
    def load(self) -> LoadSettings:
        """How the load is to change.

        Raises:
            SetupError: the options make no sense.
        """
        return read_load(self.options)

    @property
    def chat_classes(self) -> list[UserClass]:
        """The `ChatUser` classes among the user classes of this test, and the arms of those that have some.

        Raises:
            SetupError: they cannot be compared.
        """
        own = [cls for cls in self._environment.user_classes if hasattr(cls, "chat") and hasattr(cls, "scenario")]
        for cls in own:
            if hasattr(cls, "check_arms"):
                cls.check_arms()
        return [*own, *dict.fromkeys(arm for cls in own for arm in getattr(cls, "arms", ()))]

    def plan(self, options: Mapping[str, Any]) -> Plan:
        """Return what a run with these options will send and where to.

        Raises:
            SetupError: they make no sense.
        """
        return Plan(options, os.environ, self.chat_classes, self._shelf, self._host_of)

    def gates(self, options: Mapping[str, Any]) -> Gates:
        """Return what decides about a run with these options; asked in the process that collects.

        Raises:
            SetupError: they make no sense.
        """
        return read_gates(options, self.chat_classes)

    def hide_class_hosts(self) -> None:
        """Take the secrets out of hosts that classes name, before Locust shows them."""
        for cls in self.chat_classes:
            if cls.host and has_secrets(cls.host):
                self._hosts[cls], cls.host = cls.host, shown_url(cls.host)

    def _host_of(self, cls: UserClass) -> str | None:
        kept = self._hosts.get(cls)
        return kept if kept and shown_url(kept) == cls.host else cls.host

    def check_given(self, options: Mapping[str, Any]) -> None:
        """Check the options that were given, as if those that the web form may still bring were there."""
        missing = {"model": options.get("model") or "?", "host": options.get("host") or "http://localhost"}
        self.plan({**options, **missing})
        self.gates(options)
        read_influx(os.environ)

    def prepare(self, options: Mapping[str, Any], *, with_probe: bool = True) -> Plan:
        """Check the options of a run and, where it is wanted, the server.

        Raises:
            SetupError: the run cannot start.
        """
        plan = self.plan(options)
        self.gates(options)
        RunRecord.check(plan.settings.run_dir)
        self.sinks = open_sinks(os.environ, optional=bool(options.get("influx_optional")), with_probe=with_probe)
        self.sinks += filter(None, [self.metrics])
        check_keeping(options)
        trust = plan.trust
        if plan.settings.insecure:
            log.warning("Certificates are not verified (--insecure)")
        for target in dict.fromkeys(plan.targets.values()):
            proxy = proxy_in_use(target.url)
            log.info("Load goes to POST %s%s", target.shown, f" through the proxy {proxy}" if proxy else "")
        for cls in plan.targets:
            plan.wire(cls).close()  # what httpx does not take of the environment is said before anything is sent
        if with_probe and plan.settings.probe:
            self._probe(plan, trust)
        return plan

    def _probe(self, plan: Plan, trust: Context) -> None:
        for cls, target in plan.targets.items():
            around = plan.around(cls, worker="probe", keeper=self.keeper, clock=self.clock, lag_since=lambda _: None)
            wire = plan.wire(cls)
            try:
                self.probed = probe(wire, around, model=getattr(cls, "model", None) or plan.settings.model)
            finally:
                wire.close()
            log.info("Probe of %s: %s", target.shown, _text(self.probed))


def _text(completion: Completion) -> str:
    ttft = "n/a" if completion.ttft_s is None else f"{completion.ttft_s * 1e3:.0f} ms"
    tokens = "no token count" if completion.output_tokens is None else f"{completion.output_tokens} tokens"
    return f"{completion.outcome}, {tokens} ({completion.usage_source or 'n/a'}), first token after {ttft}"
