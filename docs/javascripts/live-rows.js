/*
 * A picture with data-explore becomes a live row of the explorer when the reader comes near it; without scripts the picture
 * stays. The frame says how high it is, and follows the theme of the site.
 */
document.addEventListener("DOMContentLoaded", function () {
  const frames = []
  const theme = () => (document.body.dataset.mdColorScheme === "slate" ? "dark" : "light")
  const replace = function (picture) {
    const frame = document.createElement("iframe")
    frame.src = "explorer/page.html?embed&theme=" + theme() + "#" + picture.dataset.explore
    frame.title = picture.alt + " (live)"
    frame.className = "live-row"
    frame.height = 520
    picture.replaceWith(frame)
    frames.push(frame)
  }
  const near = new IntersectionObserver(function (entries) {
    for (const { isIntersecting, target } of entries)
      if (isIntersecting) {
        near.unobserve(target)
        replace(target)
      }
  }, { rootMargin: "600px" })
  document.querySelectorAll("img[data-explore]").forEach((picture) => near.observe(picture))
  window.addEventListener("message", function ({ source, data }) {
    const frame = frames.find((each) => each.contentWindow === source)
    const height = Number(data && data.omegamaxHeight)
    if (frame && height > 100 && height < 4000) frame.height = height
  })
  new MutationObserver(() => frames.forEach((frame) => frame.contentWindow.postMessage({ omegamaxTheme: theme() }, "*"))).observe(
    document.body,
    { attributes: true, attributeFilter: ["data-md-color-scheme"] },
  )
})
