"""axe-core over a page: what keeps people from using it who see little, see other colours, or hear the page read.

The page must stand in a context with ``bypass_csp=True``: axe comes as text and is evaluated.
"""

from __future__ import annotations

from axe_playwright_python.base import AXE_SCRIPT
from playwright.async_api import Page

# axe cannot tell the contrast of text over a gradient. The page's own ends in this colour, which is the one of the
# two that is nearer to the text's.
_PLAIN_GROUND = "body { background: var(--tint) !important; }"

_RUN = """
async () => {
  const { violations } = await axe.run({ resultTypes: ["violations"] });
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, impact, nodes }) =>
      nodes.map(({ target, failureSummary }) => `${impact} ${id}: ${target.join(" ")}: ${failureSummary}`));
}
"""


async def findings(page: Page) -> list[str]:
    """The serious and critical findings on the page as it is now."""
    if not await page.evaluate("'axe' in window"):
        await page.add_style_tag(content=_PLAIN_GROUND)
        await page.evaluate(AXE_SCRIPT)
    found: list[str] = await page.evaluate(_RUN)
    return found
