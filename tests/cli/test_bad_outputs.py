import os

from cli.command_lines import TRANSFORM, WRITING, replacing


@WRITING
def test_output_places(refused, model, data, tmp_path, command):
    assert "There is no folder" in refused(*command, out="missing/out.csv")
    assert "is also an input" in refused(*replacing(command, out="{data}"))
    (tmp_path / "link.csv").symlink_to(data)
    assert "is also an input" in refused(*replacing(command, out=tmp_path / "link.csv"))
    assert "is a directory" in refused(*replacing(command, out=tmp_path))
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.csv")  # as /dev/null, which must not become a file
        assert "is not an ordinary file" in refused(*replacing(command, out=tmp_path / "pipe.csv"))


@WRITING
def test_the_folder_that_is_read_is_no_place_for_output(refused, table, tmp_path, command):
    parts = tmp_path / "parts"
    (parts / "deeper").mkdir(parents=True)
    table.drop(columns="sex").to_parquet(parts / "1.parquet")
    for name in ("1.parquet", "2.parquet", "deeper/2.parquet"):
        assert "is also an input" in refused(*replacing(command, out=parts / name), data=parts)


def test_outputs_of_transform(refused):
    assert "is also an input" in refused(*replacing(TRANSFORM, out="{model}"))
    message = refused(*TRANSFORM, out="out.xlsx")
    assert all(word in message for word in ["'.xlsx'", ".csv, .parquet", "endings"]), message
    assert "both write to standard output" in refused(*replacing(TRANSFORM, out="-"), "--json")
