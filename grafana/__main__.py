"""Write every dashboard and its guide: `python -m grafana`."""

from grafana.boards import BOARDS
from grafana.files import GUIDE, ROOT, board_path, rendered, rendered_guide

for board in BOARDS:
    board_path(board).write_text(rendered(board), encoding="utf-8")
    print(board_path(board).relative_to(ROOT))
GUIDE.write_text(rendered_guide(BOARDS), encoding="utf-8")
print(GUIDE.relative_to(ROOT))
