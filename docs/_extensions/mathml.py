"""Formulas as MathML, made when the pages are built, so that readers need neither a network nor scripts."""

from __future__ import annotations

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

__all__ = ["setup"]


def _visit_math(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def _visit_displaymath(translator: HTML5Translator, node: nodes.math_block) -> None:
    formula = tex2mathml(node.astext(), as_block=True)
    translator.body.append(f'<div class="displaymath">{formula}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Add the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (_visit_math, None), (_visit_displaymath, None))
