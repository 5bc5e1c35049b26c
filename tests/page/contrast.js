// Function body that computes the contrast of every visible text to its background, by WCAG 2.
// -> {checked: n, poor: ["2.9 <b>text</b> ..."]}
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

/** [r, g, b, alpha] of any CSS colour, color-mix() included. */
function rgba(colour) {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
}

function over([r, g, b, a], [R, G, B]) {
  return [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
}

function behind(element) {
  const layers = [];
  for (let e = element; e; e = e.parentElement) {
    const colour = rgba(getComputedStyle(e).backgroundColor);
    layers.push(colour);
    if (colour[3] === 1) break;
  }
  return layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255, 1]);
}

function luminance([r, g, b]) {
  const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
}

const poor = [];
let checked = 0;
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.data.trim() || element.closest("noscript, script, .unseen, .skip, :disabled")) continue;
  if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || element.getClientRects().length === 0) continue;
  const style = getComputedStyle(element);
  const ground = behind(element);
  const [a, b] = [luminance(over(rgba(style.color), ground)), luminance(ground)].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  const size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  ++checked;
  if (ratio < (large ? 3 : 4.5)) poor.push(`${ratio.toFixed(2)} ${element.tagName}.${element.className}: ${walker.currentNode.data.trim().slice(0, 40)}`);
}
return { checked, poor };
