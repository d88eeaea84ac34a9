// The views, in the order of their tabs.

import type { View } from "./view";
import { view as attention } from "./views/attention";
import { view as row } from "./views/row";

export const VIEWS: View[] = [row, attention];
