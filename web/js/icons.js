// The symbols of index.html, as icons on buttons.

const SVG = "http://www.w3.org/2000/svg";

export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#${name}`);
  svg.append(use);
  return svg;
}

export function setIcon(button, name) {
  button.querySelector("use").setAttribute("href", `#${name}`);
}
