// The views, in the order of their tabs.

import type { View } from "./view";
import { view as attention } from "./views/attention";
import { view as row } from "./views/row";
import { view as simplex } from "./views/simplex";
import { view as structures } from "./views/structures";

export const VIEWS: View[] = [row, simplex, structures, attention];
