// Builds elements. Text is always inserted as text nodes: no string of this page ever becomes markup.

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

/** Returns one of the symbols that index.html defines. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}

/** Returns a button that shows only an icon; `label` is its name and its tooltip. */
export function iconButton(name, label, onclick, props = {}) {
  return h("button", { type: "button", class: "icon-button", title: label, "aria-label": label, onclick, ...props }, icon(name));
}

export function byId(id) {
  return document.getElementById(id);
}

/** Returns a function that calls `work` in the next frame, once, however often the function is called. */
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

/** Returns the colours of CSS custom properties at `element` in the current theme: {name: "rgb(...)"}. */
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
