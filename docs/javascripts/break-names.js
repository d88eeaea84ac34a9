/*
 * Long names of code may be broken where a reader would: after _ . : / ( , = and before a capital. In running text those
 * that are too long for a line of a phone, in the tables of a phone all that are too long for a column. Short ones stay
 * whole: a browser would break --strength after its hyphens.
 */
document.addEventListener("DOMContentLoaded", function () {
  const phone = window.matchMedia("(max-width: 44.9375em)").matches
  document.querySelectorAll(".md-typeset :not(pre) > code").forEach(function (code) {
    const longest = phone && code.closest("table") ? 10 : 36
    if (code.textContent.length <= Math.min(longest, 24)) code.style.whiteSpace = "nowrap"
    if (code.children.length || code.textContent.length <= longest) return
    const pieces = code.textContent.split(/(?<=[_.:/(,=])|(?<=[a-z0-9])(?=[A-Z])/)
    code.replaceChildren(...pieces.flatMap((piece, at) => (at ? [document.createElement("wbr"), piece] : [piece])))
  })
})
