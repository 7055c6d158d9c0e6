import xml.etree.ElementTree as ElementTree

from foveate.comparison.error_bar import COLOURS, HEIGHT, WIDTH, Point, Series, graph, ranges


def lines(count: int) -> list[Series]:
    return [
        Series(f"variant <{i}> & co", tuple(Point(x, x + i, x + i - 0.5, x + i + 0.5) for x in (4.0, 8.0, 12.0)))
        for i in range(count)
    ]


def test_a_graph_is_a_whole_svg_with_its_names_as_text() -> None:
    drawn = graph(lines(3), x_title="words", y_title="BLEU", at_points=True)
    root = ElementTree.fromstring(drawn)
    assert root.attrib["role"] == "img"
    texts = ["".join(node.itertext()) for node in root.iter("{http://www.w3.org/2000/svg}text")]
    for message in ("variant <0> & co", "variant <2> & co", "words", "BLEU", "4", "8", "12"):
        assert message in texts


def test_everything_lies_inside_of_the_picture() -> None:
    for drawn in (
        graph(lines(12), x_title="step", y_title="loss", band=True),
        graph(lines(2), x_title="x", y_title="y"),
    ):
        for node in ElementTree.fromstring(drawn).iter():
            for name, limit in (("cx", WIDTH), ("x1", WIDTH), ("cy", HEIGHT), ("y1", HEIGHT)):
                if name in node.attrib:
                    assert 0 <= float(node.attrib[name]) <= limit
            for pair in node.attrib.get("points", "").split():
                x, y = map(float, pair.split(","))
                assert 0 <= x <= WIDTH
                assert 0 <= y <= HEIGHT


def test_more_lines_than_colours_are_dashed() -> None:
    drawn = graph(lines(COLOURS + 1), x_title="x", y_title="y")
    assert drawn.count('class="mean dashed"') == 2  # in the key and in the graph


def test_bars_have_the_height_of_the_errors() -> None:
    one = Series("a", (Point(1.0, 5.0, 4.0, 6.0), Point(2.0, 5.0, 5.0, 5.0)))
    assert graph([one], x_title="x", y_title="y").count('class="bar"') == 1


def test_an_empty_result_makes_no_graph() -> None:
    assert graph([Series("a", ())], x_title="x", y_title="y") == ""
    assert ranges([], title="BLEU") == ""


def test_every_start_is_a_dot_and_a_huge_interval_does_not_squeeze_them() -> None:
    rows = [("a", [1.0, 1.2], 1.1, (-0.2, 2.4)), ("b", [3.0], 3.0, None)]
    root = ElementTree.fromstring(ranges(rows, title="BLEU"))
    dots = list(root.iter("{http://www.w3.org/2000/svg}circle"))
    assert [node.attrib["class"] for node in dots] == ["one", "one", "dot", "one", "dot"]
    assert float(dots[3].attrib["cx"]) - float(dots[0].attrib["cx"]) > WIDTH / 4
