// Every text with less contrast to what is behind it than WCAG AA asks for (4.5; large text 3).
() => {
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const behind = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      layers.push(rgba(getComputedStyle(each).backgroundColor));
    }
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
  };
  const luminance = (color) => {
    const [r, g, b] = color.map((each) => {
      const share = each / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const poor = [];
  let n = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    const text = walker.currentNode.textContent.trim();
    if (!text || element.closest("script, style, noscript")) continue;
    if (!element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const ink = rgba(element.closest("svg") ? style.fill : style.color);
    for (let each = element; each; each = each.parentElement) {
      ink[3] *= Number(getComputedStyle(each).opacity);
    }
    const background = behind(element);
    const light = [luminance(over(ink, background)), luminance(background)].sort((a, b) => b - a);
    const ratio = (light[0] + 0.05) / (light[1] + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    n += 1;
    if (ratio < (isLarge ? 3 : 4.5)) poor.push(`${text.slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return { n, poor, paper: behind(document.body) };
}
