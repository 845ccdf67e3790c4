"""Pictures of tables, as SVG: groups of bars, and lines over time. On white, readable in print and by colour-blind people.

    bars   values by group and series        lines   points (x, y) by series
"""
import html

WIDTH, HEIGHT = 744, 320
LEFT, RIGHT, TOP, BOTTOM = 70, 20, 62, 44
# Okabe and Ito's colours.
COLOURS = ["#999999", "#56b4e9", "#009e73", "#e69f00", "#0072b2", "#d55e00"]
STYLE = "text{font:11px system-ui,sans-serif}.title{font-size:13px;font-weight:bold}.middle{text-anchor:middle}.end{text-anchor:end}.grid{stroke:#ddd}"


def bars(title, groups, names, values):
    """One bar for each value of `values[group][series]`; `groups` and `names` say what they are."""
    top, out = frame(title, names, max(value for row in values for value in row))
    room = (WIDTH - LEFT - RIGHT) / len(groups)
    width = room * 0.8 / len(names)
    for group, (label, row) in enumerate(zip(groups, values)):
        left = LEFT + room * (group + 0.1)
        for series, value in enumerate(row):
            x, y = left + width * series, place(value, top)
            out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width - 2:.1f}" height="{HEIGHT - BOTTOM - y:.1f}" fill="{colour(series)}"/>')
            out.append(f'<text class="middle" x="{x + width / 2:.1f}" y="{y - 4:.1f}">{short(value)}</text>')
        out.append(f'<text class="middle" x="{LEFT + room * (group + 0.5):.1f}" y="{HEIGHT - BOTTOM + 18}">{html.escape(label)}</text>')
    return "\n".join([*out, "</svg>\n"])


def lines(title, x_name, names, series):
    """A line for each list of points, which begin at x = 0."""
    top, out = frame(title, names, max(y for points in series for _, y in points))
    last = max(x for points in series for x, _ in points)
    for number, points in enumerate(series):
        path = " ".join(f"{LEFT + (WIDTH - LEFT - RIGHT) * x / last:.1f},{place(y, top):.1f}" for x, y in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour(number)}" stroke-width="2"/>')
    for tick in ticks(last):
        if tick <= last:
            x = LEFT + (WIDTH - LEFT - RIGHT) * tick / last
            out.append(f'<text class="middle" x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}">{short(tick)}</text>')
    out.append(f'<text class="middle" x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}">{html.escape(x_name)}</text>')
    return "\n".join([*out, "</svg>\n"])


def frame(title, names, most):
    """The largest value on the y axis, and a drawing with that axis, the title and the series' names."""
    marks = ticks(most)
    out = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" xmlns="http://www.w3.org/2000/svg"><style>{STYLE}</style>',
           '<rect width="100%" height="100%" fill="white"/>', f'<text class="title" x="12" y="22">{html.escape(title)}</text>']
    x = 12
    for number, name in enumerate(names):
        out.append(f'<rect x="{x}" y="34" width="11" height="11" fill="{colour(number)}"/><text x="{x + 15}" y="44">{html.escape(name)}</text>')
        x += 34 + 6 * len(name)
    for mark in marks:
        y = place(mark, marks[-1])
        out.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        out.append(f'<text class="end" x="{LEFT - 6}" y="{y + 4:.1f}">{short(mark)}</text>')
    return marks[-1], out


def colour(series):
    return COLOURS[series % len(COLOURS)]


def place(value, top):
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top


def ticks(most):
    """From 0 past `most`, in five steps at most of 1, 2 or 5 times a power of ten."""
    step = next(step for power in range(-3, 15) for step in (10**power, 2 * 10**power, 5 * 10**power) if most <= 5 * step)
    count = -int(-most // step)
    return [step * number for number in range(count + 1)]


def short(value):
    """A number in few signs: 137k, 0.5, 12."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:.3g}{letter}"
    return f"{value:.3g}"
