import { describe, expect, it } from "vitest";
import { describeProblem, isIntegrated, isOpen, listConflictFiles, sortQueue } from "../src/view/landings";

const landing = { status: "queued", target: "main" };

describe("landings", () => {
  it("say what is in their way", () => {
    expect(describeProblem(landing)).toBe("");
    expect(describeProblem({ ...landing, problem: "conflict" })).toBe("conflicts with what landed before");
    expect(describeProblem({ ...landing, problem: "of_another_kind" })).toBe("of another kind");
  });

  it("are integrated if another branch than the target moves", () => {
    expect(isIntegrated(landing)).toBe(false);
    expect(isIntegrated({ ...landing, branch: "main" })).toBe(false);
    expect(isIntegrated({ ...landing, branch: "deepwork/integration/wf_1" })).toBe(true);
  });

  it("are open until they have ended", () => {
    const isOpenAs = (status: string) => isOpen({ ...landing, status });
    expect(["queued", "checking", "waiting", "moving", "returned", "needs_person"].every(isOpenAs)).toBe(true);
    expect(["landed", "failed", "cancelled"].some(isOpenAs)).toBe(false);
  });

  it("name the files of a conflict as git names them", () => {
    const reason = "a conflicts with main in b.txt. Run `git merge main`.\nAuto-merging b.txt\nCONFLICT (content): Merge conflict in b.txt\nCONFLICT (add/add): Merge conflict in src/a b.py\nCONFLICT (content): Merge conflict in b.txt";
    expect(listConflictFiles(reason)).toEqual(["b.txt", "src/a b.py"]);
    expect(listConflictFiles("CONFLICT (modify/delete): c.txt deleted in main and modified in x.  Version x of c.txt left in tree.")).toEqual(["c.txt"]);
    expect(listConflictFiles(null)).toEqual([]);
  });

  it("are queued by position, and those that wait come last", () => {
    expect(sortQueue([{ id: 1 }, { id: 2, position: 2 }, { id: 3, position: 1 }]).map((each) => each.id)).toEqual([3, 2, 1]);
  });
});
