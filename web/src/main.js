// The script of a page: what is in the page is shown without it; it adds motion.

import "./style.css";
