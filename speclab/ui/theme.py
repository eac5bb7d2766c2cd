"""Fonts, colours, style sheets and the script of every page; all of it local."""

from __future__ import annotations

from pathlib import Path

import gradio as gr

ASSETS = Path(__file__).resolve().parents[2] / "assets"
ACCENT = gr.themes.Color(
    name="ink",
    c50="#eef6fb",
    c100="#d8eaf5",
    c200="#b3d5eb",
    c300="#7fb8dc",
    c400="#4497c8",
    c500="#0f7ab5",
    c600="#0072b2",
    c700="#075a8c",
    c800="#0b4a72",
    c900="#0e3d5d",
    c950="#08283e",
)
CJK_FONTS = ("PingFang SC", "Microsoft YaHei", "Noto Sans SC", "Noto Sans CJK SC", "sans-serif")


def theme() -> gr.themes.Base:
    """Return the theme: quiet greys, one blue, the fonts that Gradio bundles."""
    return gr.themes.Base(
        primary_hue=ACCENT,
        secondary_hue=ACCENT,
        neutral_hue=gr.themes.colors.slate,
        radius_size=gr.themes.sizes.radius_md,
        font=[gr.themes.LocalFont("IBM Plex Sans"), *CJK_FONTS],
        font_mono=[gr.themes.LocalFont("IBM Plex Mono"), "ui-monospace", "monospace"],
    ).set(
        body_background_fill="#f7f8fa",
        body_background_fill_dark="#0e131a",
        block_background_fill="transparent",
        block_background_fill_dark="transparent",
        block_border_width="0px",
        block_border_width_dark="0px",
        block_padding="0px",
        block_label_background_fill="transparent",
        block_title_text_weight="600",
        block_title_text_size="var(--text-sm)",
        block_info_text_size="var(--text-xs)",
        block_info_text_color="#5b6675",
        block_info_text_color_dark="#9aa7b8",
        link_text_color_dark="*primary_300",
        input_border_width="1px",
        input_background_fill="white",
        input_background_fill_dark="#161d27",
        button_primary_background_fill="*primary_600",
        button_primary_background_fill_hover="*primary_700",
        button_primary_text_color="white",
        button_primary_background_fill_dark="*primary_500",
        button_primary_background_fill_hover_dark="*primary_400",
    )


def css_paths() -> list[Path]:
    """Return the style sheets of the pages."""
    return [
        ASSETS / "css" / name
        for name in ("app.css", "learn.css", "learn_trees.css", "learn_speed.css", "learn_map.css")
    ]


def head() -> str:
    """Return what goes into the head of every page: the script, inline."""
    script = (ASSETS / "js" / "app.js").read_text(encoding="utf-8")
    return f"<script>{script}</script>"
