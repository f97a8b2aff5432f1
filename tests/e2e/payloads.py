"""Sixty known XSS payloads; each would set `hacked` if it ran."""

_CALL = "hacked=1"
_ELEMENTS = (
    "<script>{}</script>", "<img src=x onerror={}>", "<svg onload={}>", "<svg><script>{}</script></svg>",
    "<body onload={}>", "<iframe srcdoc='<script>parent.{}</script>'>", "<iframe src=javascript:parent.{}>",
    "<a href=javascript:{}>go</a>", "<a href='java\tscript:{}'>go</a>", "<a href='  javascript:{}'>go</a>",
    "<details open ontoggle={}>", "<video src=x onerror={}>", "<video><source onerror={}></video>",
    "<audio src=x onerror={}>", "<input autofocus onfocus={}>", "<select autofocus onfocus={}>",
    "<textarea autofocus onfocus={}>", "<marquee onstart={}>", "<object data=javascript:{}>",
    "<embed src=javascript:{}>", "<math><mi xlink:href=javascript:{}>x</mi></math>", "<form action=javascript:{}><button>x",
    "<button formaction=javascript:{}>x", "<meta http-equiv=refresh content='0;url=javascript:{}'>",
    "<base href=javascript:{}//>", "<link rel=stylesheet href=javascript:{}>", "<style>@import 'javascript:{}'</style>",
    "<div style=background:url(javascript:{})>", "<div onmouseover={}>x</div>", "<p onpointerenter={}>x</p>",
    "<svg><animate onbegin={} attributeName=x dur=1s>", "<svg><a xlink:href=javascript:{}><text>x</text></a></svg>",
    "<svg><use href='data:image/svg+xml,<svg onload={}/>'/></svg>", "<template><script>{}</script></template>",
    "<noscript><p title='</noscript><img src=x onerror={}>'>", "<title></title><script>{}</script>",
    "<!--<img src='--><img src=x onerror={}>'>", "<xss contenteditable autofocus onfocus={} tabindex=1>",
    "</textarea><script>{}</script>", "</script><script>{}</script>", "<ScRiPt>{}</sCrIpT>",
    "<scr<script>ipt>{}</scr</script>ipt>", "<img/src=x/onerror={}>", "<img src=x\nonerror={}>",
    "<img src=`x`onerror={}>", "<img src='x' onerror\x0b={}>",
)  # fmt: skip
_OTHERS = (
    "[go](javascript:{})", '![x](x"onerror="{})', "[go](data:text/html,<script>{}</script>)", "`<script>{}</script>`",
    "**<img src=x onerror={}>**", "```\n</pre><script>{}</script>\n```", "- <script>{}</script>", "javascript:{}",
    'https://example.org/"onmouseover="{}', "https://example.org/<script>{}</script>", '"><script>{}</script>',
    "' onfocus={} autofocus '", "${{{}}}", "{{{{constructor.constructor('{}')()}}}}",
)  # fmt: skip

PAYLOADS = tuple(text.format(_CALL) for text in _ELEMENTS + _OTHERS)
