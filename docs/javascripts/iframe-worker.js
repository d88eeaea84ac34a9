/*
 * Browsers start no Worker on a page that was opened from disk, and the search of this site runs in one. On such a page
 * this file puts another Worker in place: it runs the same script in a hidden frame, which may be opened anywhere.
 */
;(function () {
  "use strict"
  if (window.location.protocol !== "file:") return

  class FrameWorker extends EventTarget {
    constructor(url) {
      super()
      this.onmessage = null
      this.waiting = [] // messages that came before the script was there
      const address = new URL(url, window.location.href).href
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      const inside = this.frame.contentWindow
      inside.postMessage = (data) => this.answer(data)
      inside.importScripts = (...urls) =>
        urls.reduce((before, each) => before.then(() => this.load(new URL(each, address).href)), Promise.resolve())
      this.load(address).then(() => {
        const late = this.waiting
        this.waiting = null
        late.forEach((data) => this.postMessage(data))
      })
    }

    /* Runs a script inside the frame. */
    load(address) {
      return new Promise((resolve, reject) => {
        const page = this.frame.contentDocument
        const script = page.createElement("script")
        script.src = address
        script.onload = resolve
        script.onerror = () => reject(new Error("cannot load " + address))
        page.body.appendChild(script)
      })
    }

    /* To the script. */
    postMessage(data) {
      if (this.waiting) {
        this.waiting.push(data)
        return
      }
      const inside = this.frame.contentWindow
      const event = new inside.MessageEvent("message", { data })
      inside.dispatchEvent(event)
      if (inside.onmessage) inside.onmessage(event)
    }

    /* From the script. */
    answer(data) {
      const event = new MessageEvent("message", { data })
      this.dispatchEvent(event)
      if (this.onmessage) this.onmessage(event)
    }

    terminate() {
      this.frame.remove()
    }
  }

  window.Worker = FrameWorker
})()
