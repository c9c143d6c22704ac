/** One line of the table: what, stickpin's value, what it is compared with and its value, and the aim. */
export type Row = readonly [what: string, measured: string, comparedWith: string, aim: string];
