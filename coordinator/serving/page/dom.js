// Building elements. Text always goes in as text nodes: no string of this page ever becomes markup.

const SVG = "http://www.w3.org/2000/svg";

/** h("button", {class: "icon", onclick: f, "aria-label": "Stop"}, child, "text", ...) */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** One of the symbols at the head of index.html. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/** A button that shows an icon alone; `label` is its name and its tooltip. */
export function iconButton(name, label, onclick, props = {}) {
  return h("button", { type: "button", class: "icon-button", title: label, "aria-label": label, onclick, ...props }, icon(name));
}

export function byId(id) {
  return document.getElementById(id);
}

/** Calls `work` once in the next frame, however often it is asked. */
export function perFrame(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      work();
    });
  };
}

/** What custom properties mean as colours at `element`, in the theme that is shown: {name: "rgb(...)"}. */
export function themeColours(element, names) {
  const probe = h("span", { hidden: true });
  element.append(probe);
  const colours = {};
  for (const name of names) {
    probe.style.color = `var(--${name})`;
    colours[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return colours;
}
