/** Says that the settings name components that no release has. @param names at least one */
export function unknownComponentsText(names: readonly string[]): string {
  const list = names.map((name) => JSON.stringify(name)).join(', ');
  return `retention.keep_components names ${list}, which no image of the releases on this node has: nothing is kept for it. Correct the setting if the name is wrong`;
}
