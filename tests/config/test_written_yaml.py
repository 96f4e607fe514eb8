"""The YAML that tests write faster, in C, is what flexray writes, but for characters such as emoji."""

from __future__ import annotations

import pickle

import omegaconf
import pytest
import yaml
from omegaconf import OmegaConf

from helpers.fast_hydra import fast_dumper
from helpers.refusals import of_choices

CHOICES = (("algo=adaptive", "cluster=packed"), ("dataset=mosei",), ("dataset=modelnet40", "+experiment=table3"))
ODD = [
    "",
    " a",
    "a: b",
    "yes",
    "1e3",
    "0x1",
    "~",
    "a\nb",
    "ä ö",
    "\u2028",
    "'",
    '"',
    "#",
    "x" * 200,
    "w " * 99,
    "{a:1}",
]


@pytest.mark.skipif(not hasattr(yaml, "CDumper"), reason="PyYAML without libyaml")
@pytest.mark.parametrize("words", [*CHOICES, ODD], ids=lambda words: words[0])
def test_both_write_the_same(words: list[str]) -> None:
    content = ODD if words is ODD else OmegaConf.to_container(pickle.loads(of_choices(*words))[0])
    slow = omegaconf._utils.get_omega_conf_dumper()
    texts = [
        yaml.dump(content, default_flow_style=False, allow_unicode=True, sort_keys=False, Dumper=dumper)
        for dumper in (slow, fast_dumper())
    ]
    assert texts[0] == texts[1]
